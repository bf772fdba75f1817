// The chart on the page: controls, legend, zoom, and what is said beside it.

function explorer() {
  let view = viewFrom(location.hash);
  let seen;
  const coarse = matchMedia("(pointer: coarse)").matches;
  let dragging = coarse ? "pan" : "box";
  const chart = echarts.init(part("place"), null, { renderer: "svg" });

  function draw() {
    seen = scene(view, themeOfPage());
    chart.setOption(liveOption(seen, dragging), { replaceMerge: ["series", "xAxis", "yAxis", "dataZoom"] });
    const active = dragging === "box";
    chart.dispatchAction({ type: "takeGlobalCursor", key: "dataZoomSelect", dataZoomSelectActive: active });
    part("place").setAttribute("aria-label", described(seen));
    part("note").textContent = notes(seen).join(" ");
    showLegend();
    showControls(view);
    part("reset").disabled = !view.zoom;
    remember(view);
  }

  function change(what) {
    view = { ...view, zoom: null, ...what };
    draw();
  }

  function toggle(number) {
    const off = view.off.includes(number) ? view.off.filter((each) => each !== number) : [...view.off, number];
    change({ off });
  }

  function showLegend() {
    const focused = [...part("legend").children].indexOf(document.activeElement?.parentElement);
    part("legend").replaceChildren(...(seen.curves.length > 1 ? seen.curves : []).map((curve) => {
      const button = element("button", "", { type: "button", "aria-pressed": String(curve.on) });
      button.append(swatch(curve), element("span", curve.label));
      button.addEventListener("click", () => toggle(curve.number));
      button.addEventListener("mouseenter", () => chart.dispatchAction({ type: "highlight", seriesId: `curve-${curve.number}` }));
      button.addEventListener("mouseleave", () => chart.dispatchAction({ type: "downplay" }));
      const entry = element("li");
      entry.append(button);
      return entry;
    }));
    part("legend").children[focused]?.firstChild.focus();
    part("all").hidden = part("none").hidden = seen.curves.length < 4;
  }

  function zoomBy(factor) {
    const [left, right, bottom, top] = view.zoom || WHOLE;
    const around = (low, high) => {
      const half = Math.min(50, ((high - low) * factor) / 2);
      const middle = Math.min(100 - half, Math.max(half, (low + high) / 2));
      return [middle - half, middle + half];
    };
    const zoom = [...around(left, right), ...around(bottom, top)];
    change({ zoom: zoom[1] - zoom[0] > 99.9 && zoom[3] - zoom[2] > 99.9 ? null : zoom });
  }

  function zoomed() {
    const found = Object.fromEntries(chart.getOption().dataZoom.map((each) => [each.id, each]));
    const edges = ["zoom-x", "zoom-y"].flatMap((id) => [found[id].start, found[id].end]);
    view = { ...view, zoom: edges.join() === WHOLE.join() ? null : edges };
    part("reset").disabled = !view.zoom;
    remember(view);
    seen = scene(view, themeOfPage());
    if (view.xlog || view.ylog) requestAnimationFrame(() => chart.setOption(axesOf(seen)));
  }

  function drag(how) {
    dragging = how;
    for (const name of ["box", "pan"]) part(name).setAttribute("aria-pressed", String(name === how));
    draw();
  }

  for (const name of ["y", "x", "band", "colour"]) {
    part(name).addEventListener("change", () => {
      // Other things stand on the axis now: what was chosen for the last ones does not go on.
      const more = name === "x" ? { xlog: false, off: isSetting(view.x) === isSetting(part("x").value) ? view.off : [] } : {};
      change({ [name]: part(name).value, ...more, ...(name === "y" ? { ylog: false } : {}) });
    });
  }
  for (const name of ["xlog", "ylog"]) part(name).addEventListener("change", () => change({ [name]: part(name).checked }));
  part("all").addEventListener("click", () => change({ off: [] }));
  part("none").addEventListener("click", () => change({ off: seen.curves.map((curve) => curve.number) }));
  part("in").addEventListener("click", () => zoomBy(0.5));
  part("out").addEventListener("click", () => zoomBy(2));
  part("reset").addEventListener("click", () => change({ zoom: null }));
  part("box").addEventListener("click", () => drag("box"));
  part("pan").addEventListener("click", () => drag("pan"));
  part("csv").addEventListener("click", () => saveText(chartTable(seen), fileName(view, "csv"), "text/csv"));
  part("svg").addEventListener("click", () => saveText(asSvg(view), fileName(view, "svg"), "image/svg+xml"));
  part("png").addEventListener("click", () => savePng(view, fileName(view, "png")));
  chart.on("datazoom", zoomed);
  new ResizeObserver(() => chart.resize()).observe(part("place"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("hashchange", () => {
    if (location.hash === fragmentOf(view)) return;
    view = viewFrom(location.hash);
    draw();
  });
  drag(dragging);
}

function described({ shown, x, y }) {
  const ends = shown.map((curve) => {
    const last = curve.points[curve.points.length - 1];
    return `${curve.label ? `${curve.label}: ` : ""}${last ? said(y.column, last.mean) : "no finite values"}`;
  });
  return `Chart of ${y.column.label} against ${x.column.label}. At the end: ${ends.join("; ")}.`;
}

function notes({ shown, view, x, y }) {
  const sum = (name) => shown.reduce((total, curve) => total + curve[name], 0);
  const found = [];
  if (!shown.some((curve) => curve.points.length)) found.push("Nothing to draw.");
  const one = (count, single, several) => `${count} ${count === 1 ? single : several}`;
  const axes = [view.xlog && x.column.label, view.ylog && y.column.label].filter(Boolean).join(" and of ");
  const lost = sum("unlogged");
  if (lost) found.push(`Left out: ${one(lost, "point", "points")} at zero or below, for which the logarithmic axis of ${axes} has no place.`);
  const gone = sum("unfinite");
  if (gone) found.push(`Left out: ${one(gone, "value that is", "values that are")} not finite.`);
  if (DATA.thinned > 1) found.push(`One evaluation in ${DATA.thinned} is drawn, and the last.`);
  if (y.column.meaning && y.column.role === "information") found.push(`It is ${y.column.meaning}.`);
  return found;
}
