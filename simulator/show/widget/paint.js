// Draws rows of bars on a canvas. Bars that are too thin to tell apart become columns in which the height of each kind
// is its share of the time, as in the static picture. Every kind has a hatch of its own: colour is never needed.

const THIN = 2.4, HATCHED = 6, COLUMN = 4;
const STACK = ["collective", "send", "recv", "compute", "waiting"];
const DARK = {
  compute: { face: "#2f6386", edge: "#7fb8dd", hatch_colour: "#7fb8dd", text: "#ffffff" },
  waiting: { face: "#23282e", edge: "#8b97a3", hatch_colour: "#5c6873", text: "#e8ecf0" },
  collective: { face: "#9a6b00", edge: "#ffc74d", hatch_colour: "#d89a12", text: "#ffffff" },
  send: { face: "#0a5a8c", edge: "#7fc4f0", hatch_colour: "#66a9d6", text: "#ffffff" },
  recv: { face: "#00634a", edge: "#6fd6b6", hatch_colour: "#4fb898", text: "#ffffff" },
  failed: { face: "#4a1f12", edge: "#ff8a65", hatch_colour: "#8a3d25", text: "#ffd9cc" },
};
const GLYPHS = { kill: "✖", slow: "▼", skip_collective: "◆", hang: "■", preempt: "▲", corrupt: "★", partition: "✚", slow_link: "◀" };

function theme(model, isDark) {
  const looks = {};
  for (const kind of model.kinds) looks[kind] = { ...model.looks[kind], ...(isDark ? DARK[kind] : {}) };
  return isDark
    ? { looks, back: "#111418", lane: "#1b2026", ink: "#e8ecf0", muted: "#a4aeb8", faint: "#3a424b", alarm: "#ff8a65", mark: "#ffd54d" }
    : { looks, back: "#ffffff", lane: "#f4f6f8", ink: "#1b2733", muted: "#5c6873", faint: "#c3cad1", alarm: "#b3320b", mark: "#6a1b9a" };
}

// Hatches as in the static picture: / | \ - x, drawn into a small tile that repeats.
function hatch(look, ratio) {
  const n = 8 * ratio, tile = document.createElement("canvas");
  tile.width = tile.height = n;
  const ctx = tile.getContext("2d");
  ctx.fillStyle = look.face;
  ctx.fillRect(0, 0, n, n);
  ctx.strokeStyle = look.hatch_colour;
  ctx.lineWidth = ratio;
  ctx.beginPath();
  const sign = look.hatch[0];
  for (const d of [-n, 0, n]) {
    if (sign === "/" || sign === "x") { ctx.moveTo(d, n); ctx.lineTo(d + n, 0); }
    if (sign === "\\" || sign === "x") { ctx.moveTo(d, 0); ctx.lineTo(d + n, n); }
  }
  if (sign === "|") { ctx.moveTo(n / 2, 0); ctx.lineTo(n / 2, n); }
  if (sign === "-") { ctx.moveTo(0, n / 2); ctx.lineTo(n, n / 2); }
  ctx.stroke();
  return tile;
}

class Painter {
  constructor(model) {
    this.model = model;
    this.widths = new Map();
  }

  // Call before painting where size of a pixel or the theme may have changed.
  prepare(ctx, isDark, ratio) {
    if (this.isDark === isDark && this.ratio === ratio) return;
    [this.isDark, this.ratio] = [isDark, ratio];
    this.theme = theme(this.model, isDark);
    this.fills = this.model.kinds.map((kind) => {
      const look = this.theme.looks[kind];
      if (!look.hatch) return look.face;
      const pattern = ctx.createPattern(hatch(look, ratio), "repeat");
      pattern.setTransform(new DOMMatrix().scale(1 / ratio));
      return pattern;
    });
  }

  // One row: wide bars and columns of thin ones are collected by kind, because changing the fill is what costs.
  collect(row, y, view, found) {
    const { bars } = this.model.traces[row.trace], end = row.first + row.count;
    const { u0, u1, kind } = bars, failed = this.model.kinds.indexOf("failed");
    const { scale, left, right, x0: origin } = view;
    const share = this.share || (this.share = new Float64Array(this.model.kinds.length));
    let column = -1, lone = -1, count = 0;
    const flush = () => {
      if (!count) return;
      if (count === 1) {
        const x = origin + (u0[lone] - left) * scale;
        found.thin[kind[lone]].push(x, y, Math.max(1, (u1[lone] - u0[lone]) * scale), row.height);
      } else this.stack(share, origin + column * COLUMN - left * scale, y, row.height, found);
      share.fill(0);
      count = 0;
    };
    for (let i = firstVisible(this.model.traces[row.trace], row, left); i < end && u0[i] < right; i++) {
      const wide = (u1[i] - u0[i]) * scale;
      if (wide >= THIN || kind[i] === failed) {
        if (u1[i] < left) continue;
        flush();
        const from = Math.max(-2, (u0[i] - left) * scale), to = Math.min((right - left) * scale + 2, (u1[i] - left) * scale);
        const into = to - from >= HATCHED || kind[i] === failed ? found.wide : found.thin; // no room for a hatch
        into[kind[i]].push(origin + from, y, Math.max(1.5, to - from), row.height);
        if (to - from > 26 && row.height >= 9) found.labels.push(row, i, origin + from, y, to - from);
        continue;
      }
      const at = Math.floor((u0[i] * scale) / COLUMN);
      if (at !== column) { flush(); column = at; }
      share[kind[i]] += wide;
      lone = i;
      count++;
    }
    flush();
  }

  // Whole pixels, so that neighbours of about the same shares become one rectangle.
  stack(share, x, y, height, found) {
    let foot = y + height;
    for (const name of STACK) {
      const kind = this.model.kinds.indexOf(name);
      if (!share[kind]) continue;
      const tall = Math.max(1, Math.min(foot - y, Math.round((share[kind] / COLUMN) * height)));
      foot -= tall;
      const rects = found.thin[kind], last = rects.length - 4;
      if (last >= 0 && rects[last + 1] === foot && rects[last + 3] === tall && Math.abs(rects[last] + rects[last + 2] - x) < 0.1) rects[last + 2] += COLUMN;
      else rects.push(x, foot, COLUMN, tall);
    }
  }

  // Everything that `collect` found, one kind after the other.
  paint(ctx, found) {
    this.model.kinds.forEach((name, kind) => {
      const look = this.theme.looks[name], thin = found.thin[kind], wide = found.wide[kind];
      ctx.fillStyle = name === "waiting" ? look.hatch_colour : look.face;
      for (let i = 0; i < thin.length; i += 4) ctx.fillRect(thin[i], thin[i + 1], thin[i + 2], thin[i + 3]);
      ctx.fillStyle = this.fills[kind];
      for (let i = 0; i < wide.length; i += 4) ctx.fillRect(wide[i], wide[i + 1], wide[i + 2], wide[i + 3]);
      ctx.strokeStyle = look.edge;
      ctx.lineWidth = name === "failed" ? 1.5 : 0.7;
      ctx.setLineDash(name === "failed" ? [4, 3] : []);
      ctx.beginPath();
      ctx.fillStyle = look.edge;
      for (let i = 0; i < wide.length; i += 4)
        if (wide[i + 2] > 16) ctx.rect(wide[i] + 0.5, wide[i + 1] + 0.5, wide[i + 2] - 1, wide[i + 3] - 1);
        else if (wide[i + 2] > 4) ctx.fillRect(wide[i], wide[i + 1], 0.7, wide[i + 3]); // outlines of thousands cost most
      ctx.stroke();
      ctx.setLineDash([]);
    });
    this.names(ctx, found.labels);
  }

  // Names on the bars that have room, on a patch of the bar's own colour where it is hatched.
  names(ctx, labels) {
    ctx.textBaseline = "middle";
    ctx.textAlign = "center";
    for (let k = 0; k < labels.length; k += 5) {
      const [row, bar, x, y, wide] = labels.slice(k, k + 5);
      const trace = this.model.traces[row.trace], kind = this.model.kinds[trace.bars.kind[bar]], event = trace.bars.event[bar];
      ctx.font = row.height >= 14 ? FONT : SMALL;
      const text = this.namesOf(trace, kind, event, bar).find((name) => this.measured(ctx, name) + 6 < wide);
      if (!text) continue;
      const look = this.theme.looks[kind], half = this.measured(ctx, text) / 2 + 2;
      const middle = kind === "failed" ? x + half + 3 : x + wide / 2; // a cut of the axis may go through the middle
      if (look.hatch) {
        ctx.fillStyle = look.face;
        ctx.fillRect(middle - half, y + 1.5, 2 * half, row.height - 3);
      }
      ctx.fillStyle = look.text;
      ctx.fillText(text, middle, y + row.height / 2 + 0.5);
    }
  }

  measured(ctx, text) {
    const key = `${ctx.font}|${text}`;
    let width = this.widths.get(key);
    if (width === undefined) this.widths.set(key, (width = ctx.measureText(text).width));
    return width;
  }

  // The fullest name first.
  namesOf(trace, kind, event, bar) {
    const { t0, t1 } = trace.bars, took = t1[bar] < 0 ? "no end" : duration(t1[bar] - t0[bar]);
    const label = word(this.model, trace, "label", event), seq = trace.columns.seq[event];
    if (kind === "compute") {
      const phase = word(this.model, trace, "phase", event) || "compute";
      return [`${phase} ${took}`, phase, took];
    }
    if (kind === "waiting") return [`waits ${took}`, "waits"];
    if (kind === "failed") {
      const full = `${label}: ${word(this.model, trace, "status", event)}${t1[bar] < 0 ? "" : ` after ${took}`}`;
      return [full, label];
    }
    const bytes = trace.columns.bytes[event];
    return [...(bytes ? [`${label}, ${size(bytes)}`] : []), label, ...(seq >= 0 ? [`#${seq}`] : [])];
  }
}

const FAMILY = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";
const FONT = `11px ${FAMILY}`, SMALL = `9px ${FAMILY}`, BOLD = `600 11px ${FAMILY}`;
