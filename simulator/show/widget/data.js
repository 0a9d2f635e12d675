// Reads what simulator/show/widget/pack.py writes, and maps virtual time to the axis.

const ARRAYS = { d: Float64Array, i: Int32Array, I: Uint32Array, B: Uint8Array };

async function gunzip(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

// The packed traces as objects of typed arrays: `traces[k].columns.issue_ns`, `traces[k].bars.u0`, ...
async function decode(bytes) {
  const buffer = await gunzip(bytes);
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const model = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const column = (name) => {
    const [code, offset, count] = model.columns[name];
    return new ARRAYS[code](buffer, 8 + length + offset, count);
  };
  model.traces.forEach((trace, k) => {
    const columns = {};
    for (const name of Object.keys(model.columns))
      if (name.startsWith(`${k}.`)) columns[name.slice(2)] = column(name);
    trace.columns = columns;
    const places = (times) => Float64Array.from(times, (t) => toAxis(model, t));
    trace.u = { issue: places(columns.issue_ns), memory: places(columns["memory.t"]), step: places(columns["step.t"]) };
    const t0 = columns["bar.t0"], t1 = columns["bar.t1"];
    trace.bars = {
      t0, t1, kind: columns["bar.kind"], event: columns["bar.event"],
      u0: places(t0),
      u1: Float64Array.from(t1, (t) => (t < 0 ? model.edge : toAxis(model, t))),
    };
  });
  return model;
}

// A virtual time (ns) as a place on the axis, 0 to model.edge. Stretches that are cut out are not to scale.
function toAxis(model, t) {
  let piece = model.axis[0];
  for (const later of model.axis) if (later[0] <= t) piece = later;
  const [t0, t1, x0, x1] = piece;
  return t1 === t0 ? x0 : x0 + Math.min(1, Math.max(0, (t - t0) / (t1 - t0))) * (x1 - x0);
}

function toTime(model, u) {
  let piece = model.axis[0];
  for (const later of model.axis) if (later[2] <= u) piece = later;
  const [t0, t1, x0, x1] = piece;
  return x1 === x0 ? t0 : t0 + Math.min(1, Math.max(0, (u - x0) / (x1 - x0))) * (t1 - t0);
}

// Axis units per nanosecond, the same in every stretch that is to scale.
function scaleOf(model) {
  let best = 0;
  for (const [t0, t1, x0, x1, isCut] of model.axis) if (!isCut && t1 > t0) best = Math.max(best, (x1 - x0) / (t1 - t0));
  return best || 1;
}

// The first index in [from, to) whose value is greater than x, of ascending values.
function upperBound(values, x, from, to) {
  while (from < to) {
    const middle = (from + to) >> 1;
    if (values[middle] > x) to = middle;
    else from = middle + 1;
  }
  return from;
}

// The first bar of a row that may reach beyond u. Bars of a row hardly overlap, so a few steps back are enough.
function firstVisible(trace, row, u) {
  let i = upperBound(trace.bars.u0, u, row.first, row.first + row.count);
  for (let back = 0; back < 8 && i > row.first; back++) i--;
  return i;
}

const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];

// As simulator/show/units.py: three significant digits.
function duration(ns) {
  const [name, size] = UNITS.find(([, size]) => Math.abs(ns) >= size) || UNITS[3];
  const value = ns / size;
  if (size === 1 || Math.abs(value) >= 100) return `${Math.round(value).toLocaleString("en-US")} ${name}`;
  return `${Number(value.toFixed(Math.abs(value) >= 10 ? 1 : 2))} ${name}`;
}

// A point of time, exact to `step` nanoseconds.
function instant(ns, step) {
  const [name, size] = UNITS.find(([, size]) => Math.abs(ns) >= size) || UNITS[3];
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / size) - 1e-9)));
  return `${(ns / size).toLocaleString("en-US", { minimumFractionDigits: 0, maximumFractionDigits: digits })} ${name}`;
}

function size(bytes) {
  for (const [name, unit] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])
    if (bytes >= unit) return `${Number((bytes / unit).toPrecision(4))} ${name}`;
  return `${bytes} B`;
}
