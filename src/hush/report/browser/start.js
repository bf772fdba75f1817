// Where the scripts begin. The static pictures give way only once the chart stands.

const dataElement = document.getElementById("data");
const DATA = dataElement ? JSON.parse(dataElement.textContent) : null;
const FILE = (document.title || "table").replace(/[^\w.-]+/g, "_").slice(0, 60);

document.querySelectorAll(".scroll > table").forEach(dressTable);
if (DATA) {
  part("section").hidden = false;
  try {
    fillControls();
    explorer();
    document.getElementById("pictures").hidden = true;
  } catch (error) {
    part("section").hidden = true;
    console.error(error);
  }
}
