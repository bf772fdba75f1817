// Numbers as people say them. Which units a column has, the page's data say; here one of them is chosen.

const finite = (value) => typeof value === "number" && Number.isFinite(value);

function unitOf(column, largest) {
  const fits = column.units.find(([least]) => largest >= least) || column.units[column.units.length - 1];
  return { size: fits[1], name: fits[2] };
}

function digits(value, column) {
  const size = Math.abs(value);
  if (column.unit === "count") return value.toLocaleString("en", { maximumFractionDigits: 2 });
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(3);
  return value.toLocaleString("en", { maximumSignificantDigits: 4 });
}

// An ε is never shown as less than it is.
function roundedUp(value) {
  const near = Number(value.toPrecision(3));
  if (near >= value || value <= 0) return String(near);
  return String(Number((near + 10 ** (Math.floor(Math.log10(value)) - 2)).toPrecision(3)));
}

function said(column, value) {
  if (!finite(value)) return "not finite";
  if (column.unit === "ε") return roundedUp(value);
  const unit = unitOf(column, Math.abs(value));
  return `${digits(value / unit.size, column)} ${unit.name}`.trim();
}

// A mean with what lies around it, in the unit of the mean.
function saidWithBand(column, point, band) {
  if (band === "none" || point.count < 2) return said(column, point.mean);
  const unit = unitOf(column, Math.abs(point.mean));
  const inUnit = (value) => (column.unit === "ε" ? roundedUp(value) : digits(value / unit.size, column));
  if (band === "range") return `${said(column, point.mean)} (${inUnit(point.low)} to ${inUnit(point.high)})`;
  return finite(point.deviation) ? `${said(column, point.mean)} ± ${inUnit(point.deviation)}` : said(column, point.mean);
}

// Where a logarithmic axis has ticks, and which of them have a label: the fewer, the more decades are shown.
function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const [parts, labelled] = decades < 0.4 ? [10, null] : [1, decades < 1 ? null : decades < 4 ? [1, 2, 5] : [1]];
  const [ticks, labels] = [[], []];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (let count = parts; count < 10 * parts; count += 1) {
      const value = Number(`${count / parts}e${power}`);
      if (value < low || value > high) continue;
      ticks.push(value);
      if (!labelled || labelled.includes(count / parts)) labels.push(value);
    }
  }
  return { ticks, labels };
}
