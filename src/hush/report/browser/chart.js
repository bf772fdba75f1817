// The chart itself: what the reader chose, as options of ECharts.

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
const MOST_IN_TOOLTIP = 14;
const PAPER = { ink: "#1b2431", soft: "#5a6675", line: "#e2e6eb", card: "#ffffff", theme: "light" };

function themeOfPage() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  return { ink: of("ink"), soft: of("soft"), line: of("line"), card: of("card"), theme };
}

// All that is to be drawn, in the units of the axes: so ticks stand at round numbers of these.
function scene(view, theme) {
  const all = curvesAgainst(view.x);
  const styles = looks(all, view.colour, theme.theme);
  const curves = all.map((curve, number) => ({
    ...curve, ...styles[number], number, on: !view.off.includes(number), ...drawn(curve, view),
  }));
  const shown = curves.filter((curve) => curve.on);
  const spans = (values) => ({ low: Math.min(...values), high: Math.max(...values) });
  const axis = (name, values) => {
    const column = columnOf(name);
    const span = spans(values.filter(finite));
    const unit = unitOf(column, finite(span.high) ? span.high : 0);
    return { name, column, unit, low: span.low / unit.size, high: span.high / unit.size };
  };
  const x = axis(view.x, shown.flatMap((curve) => curve.points.map((point) => point.x)));
  const around = (curve) => curve.band.flatMap(([, low, high]) => [low, high]).filter((value) => !view.ylog || value > 0);
  const y = axis(view.y, shown.flatMap((curve) => [...curve.points.map((point) => point.mean), ...around(curve)]));
  return { curves, shown, x, y, view, theme };
}

const nameOf = (axis) => (axis.unit.name ? `${axis.column.label} (${axis.unit.name})` : axis.column.label);

function axisOption(axis, log, theme, more) {
  const label = { color: theme.ink, fontFamily: FONT, fontSize: 12, hideOverlap: true };
  const option = {
    type: log ? "log" : "value", name: nameOf(axis), scale: true,
    nameTextStyle: { color: theme.ink, fontFamily: FONT, fontSize: 13 },
    axisLine: { show: true, onZero: false, lineStyle: { color: theme.soft } }, axisTick: { show: true },
    splitLine: { lineStyle: { color: theme.line } },
    axisLabel: { ...label, formatter: (value) => digits(value, axis.column) },
    axisPointer: { label: { show: false } }, ...more,
  };
  if (!log || !(axis.low > 0)) return option;
  const [low, high] = axis.high > axis.low ? [axis.low / 1.06, axis.high * 1.06] : [axis.low / 2, axis.low * 2];
  const { ticks, labels } = logTicks(low, high);
  return {
    ...option, min: low, max: high, axisTick: { show: true, customValues: ticks },
    axisLabel: { ...option.axisLabel, customValues: labels, showMinLabel: null, showMaxLabel: null },
  };
}

// Lines never cross zero of what cannot be less, nor the whole of a share.
function limits(axis, log) {
  if (log || !finite(axis.low)) return {};
  const option = {};
  if (axis.low >= 0 && axis.column.role !== "measure" && axis.column.role !== "information" && !isSetting(axis.name)) option.min = 0;
  if (axis.column.unit === "share") {
    const room = 0.05 * (axis.high - axis.low || 1);
    if (axis.low >= 0 && axis.low < room) option.min = 0;
    if (axis.high * axis.unit.size <= 1 && axis.high * axis.unit.size > 0.97) option.max = 1 / axis.unit.size;
  }
  return option;
}

function lineSeries(curve, seen) {
  return {
    type: "line", id: `curve-${curve.number}`, name: curve.label || "mean", animation: false, clip: true, z: 3,
    showSymbol: curve.points.length < 2 || isSetting(seen.view.x), symbol: "circle", symbolSize: 7,
    lineStyle: { width: 2, color: curve.colour, type: curve.dash }, itemStyle: { color: curve.colour },
    emphasis: { lineStyle: { width: 4 }, focus: "series" },
    data: curve.points.map((point) => [point.x / seen.x.unit.size, point.mean / seen.y.unit.size]),
  };
}

// The band as one area: up along what is highest, back along what is lowest.
function bandSeries(curve, seen) {
  const data = curve.band.map(([x, low, high]) => [x / seen.x.unit.size, low / seen.y.unit.size, high / seen.y.unit.size]);
  const renderItem = (params, api) => {
    if (params.dataIndex !== 0) return null;
    const { y, height } = params.coordSys;
    const place = ([x, value]) => (seen.view.ylog && value <= 0 ? [api.coord([x, seen.y.low])[0], y + height] : api.coord([x, value]));
    const up = data.map(([x, , high]) => place([x, high]));
    const back = data.map(([x, low]) => place([x, low])).reverse();
    const style = { fill: curve.colour, opacity: 0.18 };
    return { type: "polygon", shape: { points: [...up, ...back] }, style, silent: true };
  };
  const within = data.map(([x, low, high]) => [x, seen.view.ylog && low <= 0 ? high : low, high]);
  return {
    type: "custom", id: `band-${curve.number}`, clip: true, silent: true, animation: false, z: 2, renderItem, data: within,
    encode: { x: 0, y: [1, 2], tooltip: [] }, tooltip: { show: false },
  };
}

function optionOf(seen) {
  const { view, theme } = seen;
  const lines = seen.shown.map((curve) => lineSeries(curve, seen));
  const bands = seen.shown.filter((curve) => curve.band.length > 1).map((curve) => bandSeries(curve, seen));
  return {
    animation: false, textStyle: { fontFamily: FONT },
    grid: { left: 12, right: 24, top: 34, bottom: 34, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
    xAxis: axisOption(seen.x, view.xlog, theme, { ...limits(seen.x, view.xlog), nameLocation: "middle", nameGap: 30 }),
    yAxis: axisOption(seen.y, view.ylog, theme, {
      ...limits(seen.y, view.ylog), nameLocation: "end", nameGap: 14,
      nameTextStyle: { color: theme.ink, fontFamily: FONT, fontSize: 13, align: "left", padding: [0, 0, 0, -40] },
    }),
    series: [...bands, ...lines],
  };
}

// What a picture on the page has beside what is drawn: hovering, zooming.
function liveOption(seen, dragging) {
  const zoom = seen.view.zoom;
  const inside = (axis, from, to) => ({
    type: "inside", id: `zoom-${axis}`, [`${axis}AxisIndex`]: 0, filterMode: "none", zoomOnMouseWheel: "ctrl",
    moveOnMouseMove: dragging === "pan", preventDefaultMouseMove: false, minSpan: 0.01,
    ...(zoom ? { start: from, end: to } : { start: 0, end: 100 }),
  });
  const pointer = { type: "cross", lineStyle: { color: seen.theme.soft }, crossStyle: { color: seen.theme.soft } };
  return {
    ...optionOf(seen),
    dataZoom: [inside("x", ...(zoom || []).slice(0, 2)), inside("y", ...(zoom || []).slice(2))],
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
  const place = at * seen.x.unit.size;
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
