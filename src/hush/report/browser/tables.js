// Tables: a click on a heading sorts by it, once more the other way round; and each table can be had as CSV.

const collator = new Intl.Collator("en", { numeric: true });

function keyOf(row, column) {
  const cell = row.cells[column];
  if (cell.dataset.value === undefined) return cell.textContent;
  return Number(cell.dataset.value);
}

// What has no number stands last, whichever way the others go.
function order(one, other, direction) {
  const missing = (key) => key === "" || Number.isNaN(key);
  if (missing(one) || missing(other)) return missing(one) - missing(other);
  return direction * (typeof one === "number" && typeof other === "number" ? one - other : collator.compare(one, other));
}

function sortBy(table, column) {
  const heads = [...table.tHead.rows[0].cells];
  const upwards = heads[column].getAttribute("aria-sort") !== "ascending";
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", upwards ? "ascending" : "descending");
  const body = table.tBodies[0];
  const rows = [...body.rows].sort((one, other) => order(keyOf(one, column), keyOf(other, column), upwards ? 1 : -1));
  body.append(...rows);
}

function makeSortable(table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = element("button", head.textContent, { type: "button" });
    head.replaceChildren(button);
    button.addEventListener("click", () => sortBy(table, column));
  });
}

// Numbers as they were recorded rather than as they are said; a deviation has a column of its own.
function tableRows(table) {
  const heads = [...table.tHead.rows[0].cells];
  const bodies = [...table.tBodies[0].rows].map((row) => [...row.cells]);
  const spread = heads.map((_, column) => bodies.some((cells) => cells[column].dataset.deviation !== undefined));
  const name = (head) => head.dataset.name || head.textContent;
  const titles = heads.flatMap((head, column) => (spread[column] ? [name(head), `${name(head)}_deviation`] : [name(head)]));
  const value = (cell) => (cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value));
  const rows = bodies.map((cells) => cells.flatMap((cell, column) =>
    spread[column] ? [value(cell), Number(cell.dataset.deviation ?? NaN)] : [value(cell)]));
  return [titles, ...rows];
}

function dressTable(table) {
  if (![...table.tHead.rows[0].cells].some((head) => head.textContent)) return;
  if (table.tBodies[0].rows.length > 1) makeSortable(table);
  const button = element("button", "CSV", { type: "button", class: "plain", "aria-label": `download the table ${table.id} as CSV` });
  button.addEventListener("click", () => saveText(csv(tableRows(table)), `${FILE}-${table.id}.csv`, "text/csv"));
  const bar = element("div", "", { class: "under" });
  bar.append(button);
  table.closest(".scroll").after(bar);
}
