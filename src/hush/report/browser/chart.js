// The chart itself: what the reader chose, as options of ECharts.

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
const MOST_IN_TOOLTIP = 14;
const WHOLE = [0, 100, 0, 100];  // what is shown of the axes, in percent: from and to across, from and to up
const PAPER = { ink: "#1b2431", soft: "#5a6675", line: "#e2e6eb", card: "#ffffff", theme: "light" };

function themeOfPage() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  return { ink: of("ink"), soft: of("soft"), line: of("line"), card: of("card"), theme };
}

// All that is to be drawn, in the units of the axes: so ticks stand at round numbers of these.
function scene(view, theme) {
  const zoom = view.zoom || WHOLE;
  const all = curvesAgainst(view.x);
  const styles = looks(all, view.colour, theme.theme);
  const curves = all.map((curve, number) => ({
    ...curve, ...styles[number], number, on: !view.off.includes(number), ...drawn(curve, view),
  }));
  const shown = curves.filter((curve) => curve.on);
  const axis = (name, log, zoom, values) => {
    const column = columnOf(name);
    const unit = unitOf(column, Math.max(0, ...values));
    const place = (value) => (log ? Math.log10(value / unit.size) : value / unit.size);
    const value = (place) => (log ? 10 ** place : place);  // in the unit
    const placed = values.map(place);
    return { name, column, unit, log, zoom, place, value, low: Math.min(...placed), high: Math.max(...placed) };
  };
  const across = shown.flatMap((curve) => curve.points.map((point) => point.x));
  const up = shown.flatMap((curve) => [...curve.points.map((point) => point.mean), ...curve.band.flatMap(([, ...ends]) => ends)]);
  const x = axis(view.x, view.xlog, zoom.slice(0, 2), across);
  const y = axis(view.y, view.ylog, zoom.slice(2), up.filter((value) => !view.ylog || value > 0));
  return { curves, shown, x, y, view, theme };
}

const nameOf = (axis) => (axis.unit.name ? `${axis.column.label} (${axis.unit.name})` : axis.column.label);

function axisOption(axis, theme, more) {
  const ends = limits(axis);
  const option = {
    type: "value", name: nameOf(axis), scale: true,
    nameTextStyle: { color: theme.ink, fontFamily: FONT, fontSize: 13 },
    axisLine: { show: true, onZero: false, lineStyle: { color: theme.soft } }, axisTick: { show: true },
    splitLine: { lineStyle: { color: theme.line } }, axisPointer: { label: { show: false } }, ...ends, ...more,
  };
  const label = { color: theme.ink, fontFamily: FONT, fontSize: 12, hideOverlap: true, ...ends.axisLabel };
  option.axisLabel = { ...label, formatter: (value) => digits(axis.value(value), axis.column) };
  return axis.log && finite(axis.low) ? onLog(option, axis) : option;
}

// ECharts zooms into its own logarithmic axis as if it were linear, and has ticks at powers of ten alone. So logarithms
// are drawn on a linear axis, with ticks for what is to be seen of it.
function onLog(option, axis) {
  const room = 0.025 * (axis.high - axis.low) || 0.3;
  const [min, max] = [axis.low - room, axis.high + room];
  const at = (percent) => 10 ** (min + ((max - min) * percent) / 100);
  const { ticks, labels } = logTicks(...axis.zoom.map(at));
  const axisTick = { show: true, customValues: ticks.map(Math.log10) };
  return { ...option, min, max, axisTick, axisLabel: { ...option.axisLabel, customValues: labels.map(Math.log10) } };
}

// Where an axis of shares begins if it ends at the whole, so that its ticks are round.
const FLOORS = [0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0];

// What was spent is drawn from nothing on. An axis of shares does not go beyond the whole.
function limits(axis) {
  if (axis.log || !finite(axis.low)) return {};
  if (axis.column.role === "identity" || axis.column.role === "total") {
    const round = Number(axis.high.toPrecision(2)) === axis.high;
    return axis.low >= 0 && axis.high > 0 ? { min: 0, max: axis.high, axisLabel: { showMaxLabel: round } } : {};
  }
  const [low, high] = [axis.low * axis.unit.size, axis.high * axis.unit.size];
  if (axis.column.unit !== "share" || low < 0 || high > 1 || high < 0.97) return {};
  return { min: FLOORS.find((floor) => floor <= low) / axis.unit.size, max: 1 / axis.unit.size };
}

function lineSeries(curve, seen) {
  return {
    type: "line", id: `curve-${curve.number}`, name: curve.label || "mean", animation: false, clip: true, z: 3,
    showSymbol: curve.points.length < 2 || isSetting(seen.view.x), symbol: "circle", symbolSize: 7,
    lineStyle: { width: 2, color: curve.colour, type: curve.dash }, itemStyle: { color: curve.colour },
    emphasis: { lineStyle: { width: 2.5 }, focus: "series" },
    data: curve.points.map((point) => [seen.x.place(point.x), seen.y.place(point.mean)]),
  };
}

// The band as one area: up along what is highest, back along what is lowest, or along the axis where that has no place.
function bandSeries(curve, seen) {
  const data = curve.band.map(([x, low, high]) => [seen.x.place(x), seen.y.place(low), seen.y.place(high)]);
  const renderItem = (params, api) => {
    if (params.dataIndex !== 0) return null;
    const bottom = params.coordSys.y + params.coordSys.height;
    const at = (x, y) => (finite(y) ? api.coord([x, y]) : [api.coord([x, seen.y.low])[0], bottom]);
    const up = data.map(([x, , high]) => at(x, high));
    const back = data.map(([x, low]) => at(x, low)).reverse();
    const style = { fill: curve.colour, opacity: 0.18 };
    return { type: "polygon", shape: { points: [...up, ...back] }, style, silent: true };
  };
  return {
    type: "custom", id: `band-${curve.number}`, clip: true, silent: true, animation: false, z: 2, renderItem,
    data: data.map(([x, low, high]) => [x, finite(low) ? low : high, high]),
    encode: { x: 0, y: [1, 2], tooltip: [] }, tooltip: { show: false },
  };
}

function axesOf({ x, y, theme }) {
  const style = { color: theme.ink, fontFamily: FONT, fontSize: 13, align: "left", padding: [0, 0, 0, -40] };
  return {
    xAxis: axisOption(x, theme, { nameLocation: "middle", nameGap: 30 }),
    yAxis: axisOption(y, theme, { nameLocation: "end", nameGap: 14, nameTextStyle: style }),
  };
}

function optionOf(seen) {
  const lines = seen.shown.map((curve) => lineSeries(curve, seen));
  const bands = seen.shown.filter((curve) => curve.band.length > 1).map((curve) => bandSeries(curve, seen));
  return {
    animation: false, textStyle: { fontFamily: FONT },
    grid: { left: 12, right: 24, top: 12, bottom: 12, outerBoundsMode: "same", outerBoundsContain: "all" },
    ...axesOf(seen), series: [...bands, ...lines],
  };
}

// What a picture on the page has beside what is drawn: hovering, zooming.
function liveOption(seen, dragging) {
  const zoom = seen.view.zoom || WHOLE;
  const inside = (axis, from, to) => ({
    type: "inside", id: `zoom-${axis}`, [`${axis}AxisIndex`]: 0, filterMode: "none", zoomOnMouseWheel: "ctrl",
    moveOnMouseMove: dragging === "pan", preventDefaultMouseMove: false, minSpan: 0.01,
    start: from, end: to,
  });
  const pointer = { type: "cross", lineStyle: { color: seen.theme.soft }, crossStyle: { color: seen.theme.soft } };
  return {
    ...optionOf(seen),
    dataZoom: [inside("x", ...zoom.slice(0, 2)), inside("y", ...zoom.slice(2))],
    toolbox: { itemSize: 0, top: -40, feature: { dataZoom: { filterMode: "none", brushStyle: { color: "rgba(0,114,178,0.18)" } } } },
    tooltip: {
      trigger: "axis", axisPointer: pointer, confine: true, transitionDuration: 0, backgroundColor: seen.theme.card,
      borderColor: seen.theme.line, textStyle: { color: seen.theme.ink, fontFamily: FONT, fontSize: 13 },
      formatter: (found) => tooltip(seen, found[0].axisValue),
    },
  };
}

// Each curve at its evaluation nearest to the pointer. Texts are set as texts, whatever they hold.
function tooltip(seen, at) {
  const box = element("div", "", { class: "tip" });
  const place = seen.x.value(at) * seen.x.unit.size;
  box.append(element("b", `${seen.x.column.label}: ${said(seen.x.column, place)}`));
  const nearest = (points) =>
    points.reduce((best, point) => (Math.abs(point.x - place) < Math.abs(best.x - place) ? point : best));
  const rows = seen.shown.filter((curve) => curve.points.length).map((curve) => ({ curve, point: nearest(curve.points) }));
  rows.sort((one, other) => other.point.mean - one.point.mean);
  for (const { curve, point } of rows.slice(0, MOST_IN_TOOLTIP)) {
    const row = element("div", "");
    row.append(swatch(curve), element("span", curve.label || seen.y.column.label));
    const elsewhere = Math.abs(point.x - place) > 1e-3 * Math.abs(place) ? ` at ${said(seen.x.column, point.x)}` : "";
    row.append(element("b", saidWithBand(seen.y.column, point, seen.view.band) + elsewhere));
    box.append(row);
  }
  if (rows.length > MOST_IN_TOOLTIP) box.append(element("i", `and ${rows.length - MOST_IN_TOOLTIP} more`));
  return box;
}

function swatch(curve) {
  const made = element("span", "", { class: "swatch" });
  made.style.borderTop = `3px ${curve.dash} ${curve.colour}`;
  return made;
}
