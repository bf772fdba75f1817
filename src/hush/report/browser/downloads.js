// What a reader takes away: tables as CSV, the chart as CSV, SVG or PNG.

function save(blob, name) {
  const link = element("a", "", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const saveText = (text, name, type) => save(new Blob([text], { type: `${type};charset=utf-8` }), name);

// A text that a spreadsheet would take for a formula is marked as the text it is.
function csvCell(value) {
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const csv = (rows) => rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";

const fileName = (view, ending) => `${DATA.file}-${view.y}-${view.x}.${ending}`.replace(/[^\w.-]+/g, "_");

function chartTable({ shown, view }) {
  const xs = view.x === "round" ? [] : [view.x];
  const rows = shown.flatMap((curve) => curve.points.map((point) => [
    curve.label, point.round, ...xs.map(() => point.x), point.mean, point.low, point.high, point.deviation, point.count,
  ]));
  return csv([["curve", "round", ...xs, view.y, "lowest", "highest", "deviation", "repetitions"], ...rows]);
}

const LEGEND_LINE = 18;

// On paper the legend stands below the axes, a line for each curve.
function printed(view) {
  const seen = scene(view, PAPER);
  const named = seen.shown.filter((curve) => curve.label);
  const height = 460 + LEGEND_LINE * named.length;
  const option = optionOf(seen);
  const zoom = view.zoom || WHOLE;
  option.grid = { ...option.grid, bottom: 16 + LEGEND_LINE * named.length };
  option.backgroundColor = PAPER.card;
  option.dataZoom = ["x", "y"].map((axis, number) => ({
    type: "inside", [`${axis}AxisIndex`]: 0, filterMode: "none", start: zoom[2 * number], end: zoom[2 * number + 1],
  }));
  option.legend = {
    show: named.length > 0, orient: "vertical", left: 50, bottom: 6, itemGap: LEGEND_LINE - 8, itemHeight: 8, itemWidth: 30,
    textStyle: { color: PAPER.ink, fontFamily: FONT, fontSize: 12 }, data: named.map((curve) => curve.label),
  };
  return { option, width: 860, height };
}

function asSvg(view) {
  const { option, width, height } = printed(view);
  const chart = echarts.init(null, null, { renderer: "svg", ssr: true, width, height });
  chart.setOption(option);
  const text = chart.renderToSVGString();
  chart.dispose();
  return text;
}

function savePng(view, name) {
  const { option, width, height } = printed(view);
  const place = document.createElement("div");
  const chart = echarts.init(place, null, { renderer: "canvas", width, height, devicePixelRatio: 2 });
  chart.setOption(option);
  chart.renderToCanvas({ pixelRatio: 2, backgroundColor: PAPER.card }).toBlob((blob) => {
    save(blob, name);
    chart.dispose();
  }, "image/png");
}
