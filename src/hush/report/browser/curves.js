// What is drawn: points of curves from the rows of the records, the repetitions of a round together.

const BAND_LABELS = { range: "lowest to highest", deviation: "± standard deviation", none: "none" };

// Several repetitions as one point. Of ε the largest stands for all: a promise is kept in every one or not at all.
function together(xs, ys, xColumn, yColumn) {
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const one = (values, column) => (column.aggregate === "max" ? Math.max(...values) : mean(values));
  const middle = mean(ys);
  const squares = ys.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  const spread = ys.length > 1 && yColumn.aggregate !== "max" ? Math.sqrt(squares / (ys.length - 1)) : NaN;
  return {
    x: one(xs, xColumn), mean: one(ys, yColumn), low: Math.min(...ys), high: Math.max(...ys), deviation: spread,
    count: ys.length,
  };
}

// Round by round, over the repetitions whose numbers are finite.
function series(curve, x, y) {
  const byRound = new Map();
  let unfinite = 0;
  curve.rows.round.forEach((round, row) => {
    const [across, up] = [curve.rows[x][row], curve.rows[y][row]];
    if (!finite(across) || !finite(up)) {
      unfinite += 1;
      return;
    }
    if (!byRound.has(round)) byRound.set(round, [[], []]);
    byRound.get(round)[0].push(across);
    byRound.get(round)[1].push(up);
  });
  const rounds = [...byRound.keys()].sort((one, other) => one - other);
  const points = rounds.map((round) => ({ round, ...together(...byRound.get(round), DATA.columns[x], DATA.columns[y]) }));
  return { points, unfinite };
}

// The last row of each repetition, as one point at the value of a setting.
function atTheEnd(curve, setting, y) {
  const last = new Map();
  curve.rows.round.forEach((round, row) => {
    const repetition = curve.rows.repetition[row];
    if (!last.has(repetition) || curve.rows.round[last.get(repetition)] <= round) last.set(repetition, row);
  });
  const values = [...last.values()].map((row) => curve.rows[y][row]);
  const ys = values.filter(finite);
  const value = curve.settings[setting];
  const point = ys.length ? [{ round: Math.max(...curve.rows.round), ...together(ys.map(() => value), ys, SETTING, DATA.columns[y]) }] : [];
  return { points: point, unfinite: values.length - ys.length };
}

const SETTING = { unit: "", units: [[0, 1, ""]], aggregate: "mean" };
const isSetting = (name) => DATA.settings.includes(name);
const columnOf = (name) => (isSetting(name) ? { ...SETTING, label: name } : DATA.columns[name]);

// What tells the curves of one algorithm apart beside `x`; how long they were run does not.
function otherSettings(curve, x) {
  const alike = DATA.curves.filter((each) => each.algorithm === curve.algorithm);
  const varies = (name) => new Set(alike.map((each) => each.settings[name])).size > 1;
  const told = (name) => name !== x && !name.startsWith("run.") && finite(curve.settings[name]);
  return DATA.settings.filter((name) => told(name) && varies(name));
}

// Curves over the rounds are those of the page. Over a setting, a curve joins what differs in nothing else.
function curvesAgainst(x) {
  if (!isSetting(x)) return DATA.curves.map((curve) => ({ ...curve, members: [curve] }));
  const groups = new Map();
  for (const curve of DATA.curves) {
    if (!finite(curve.settings[x])) continue;
    const others = otherSettings(curve, x);
    const parts = others.map((name) => `${name} = ${digits(curve.settings[name], SETTING)}`);
    const label = [DATA.algorithms > 1 ? curve.algorithm : "", ...parts].filter(Boolean).join(", ");
    if (!groups.has(label)) groups.set(label, { label, run: curve.run, algorithm: curve.algorithm, members: [] });
    groups.get(label).members.push(curve);
  }
  return [...groups.values()];
}

function pointsOf(curve, x, y) {
  if (!isSetting(x)) return series(curve.members[0], x, y);
  const parts = curve.members.map((member) => atTheEnd(member, x, y));
  const points = parts.flatMap((part) => part.points).sort((one, other) => one.x - other.x);
  return { points, unfinite: parts.reduce((sum, part) => sum + part.unfinite, 0) };
}

// What a logarithmic axis has no place for is left out and counted.
function drawn(curve, view) {
  const { points, unfinite } = pointsOf(curve, view.x, view.y);
  const kept = points.filter((point) => (!view.xlog || point.x > 0) && (!view.ylog || point.mean > 0));
  const band = kept.filter((point) => point.count > 1 && view.band !== "none").map((point) => {
    const around = view.band === "range" ? [point.low, point.high] : [point.mean - point.deviation, point.mean + point.deviation];
    return [point.x, ...around];
  });
  return { points: kept, band: band.filter((each) => each.every(finite)), unfinite, unlogged: points.length - kept.length };
}

// Colour and dashes. Curves of one group share a colour and have dashes of their own.
const DASHES = ["solid", "dashed", "dotted"];

function looks(curves, colour, theme) {
  const keys = curves.map((curve, number) => (colour === "curve" ? number : curve[colour]));
  const groups = [...new Set(keys)];
  const { few, many } = DATA.palettes[theme];
  const pick = (place) =>
    groups.length <= few.length ? few[place] : many[Math.round((place * (many.length - 1)) / (groups.length - 1))];
  const seen = new Map();
  return keys.map((key) => {
    const within = seen.get(key) || 0;
    seen.set(key, within + 1);
    return { colour: pick(groups.indexOf(key)), dash: DASHES[within % DASHES.length] };
  });
}
