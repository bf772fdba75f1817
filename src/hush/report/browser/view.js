// What the reader chose: kept in the address after #, so that a view can be shared.

const TRUE = "1";

function standardView() {
  return { ...DATA.first, band: "range", colour: "curve", off: [], zoom: null };
}

// Whatever stands in the address is a wish: only names and numbers that the page knows are taken from it.
function viewFrom(fragment) {
  const asked = new URLSearchParams(fragment.replace(/^#/, ""));
  const view = standardView();
  const oneOf = (name, allowed) => {
    if (allowed.includes(asked.get(name))) view[name] = asked.get(name);
  };
  oneOf("x", [...Object.keys(DATA.columns), ...DATA.settings]);
  oneOf("y", Object.keys(DATA.columns));
  oneOf("band", Object.keys(BAND_LABELS));
  oneOf("colour", DATA.colourBy);
  for (const [axis, log] of [["x", "xlog"], ["y", "ylog"]]) {
    if (asked.has(log) || asked.has(axis)) view[log] = asked.get(log) === TRUE;
  }
  view.off = (asked.get("off") || "").split(" ").filter(Boolean).map(Number).filter(Number.isInteger);
  const zoom = (asked.get("zoom") || "").split(" ").map(Number);
  if (asked.has("zoom") && zoom.length === 4 && zoom.every(finite)) view.zoom = zoom;
  return view;
}

function fragmentOf(view) {
  const said = new URLSearchParams({ x: view.x, y: view.y });
  if (view.xlog) said.set("xlog", TRUE);
  if (view.ylog) said.set("ylog", TRUE);
  if (view.band !== "range") said.set("band", view.band);
  if (view.colour !== "curve") said.set("colour", view.colour);
  if (view.off.length) said.set("off", view.off.join(" "));
  if (view.zoom) said.set("zoom", view.zoom.map((edge) => Number(edge.toPrecision(6))).join(" "));
  return `#${said}`;
}

function remember(view) {
  try {
    history.replaceState(null, "", fragmentOf(view));
  } catch {
    // A browser that keeps the address of a file to itself shows the chart all the same.
  }
}

const part = (name) => document.getElementById(`chart-${name}`);

function element(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function fillSelect(select, groups) {
  for (const [label, choices] of groups) {
    if (!choices.length) continue;
    const place = label ? element("optgroup", "", { label }) : select;
    if (label) select.append(place);
    for (const [value, text] of choices) place.append(element("option", text, { value }));
  }
}

function fillControls() {
  const ofRole = (...roles) =>
    Object.entries(DATA.columns).filter(([, column]) => roles.includes(column.role)).map(([name, column]) => [name, column.label]);
  const measured = ["measured", ofRole("measure")];
  const spent = ["spent", ofRole("identity", "total")];
  const seen = ["also seen, a mean since the last evaluation", ofRole("information")];
  fillSelect(part("y"), [measured, spent, seen]);
  const settings = DATA.settings.map((name) => [name, name]);
  fillSelect(part("x"), [spent, ["settings: how it ended for each value", settings], measured, seen]);
  fillSelect(part("band"), [["", Object.entries(BAND_LABELS)]]);
  fillSelect(part("colour"), [["", DATA.colourBy.map((name) => [name, name])]]);
  part("band").closest("label").hidden = !DATA.repeated;
  part("colour").closest("label").hidden = DATA.colourBy.length < 2;
}

function showControls(view) {
  for (const name of ["x", "y", "band", "colour"]) part(name).value = view[name];
  for (const name of ["xlog", "ylog"]) part(name).checked = view[name];
}
