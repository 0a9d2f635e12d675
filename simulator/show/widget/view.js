// The picture: which rows there are, where they lie, and one function that draws what is in view.

const GUTTER = 96, RULER = 24, OVERVIEW = 14, TALLEST = 560;

// Rows in the order in which they are shown. `order`: "trace" (all of A, then all of B) or "rank" (A and B in turn).
function layOut(model, order, ranks) {
  let rows = model.traces.flatMap((trace, k) => trace.rows.map((row) => ({ ...row, trace: k })));
  if (ranks) rows = rows.filter((row) => ranks.has(row.rank));
  const key = order === "rank" ? (row) => [row.rank, row.trace] : (row) => [row.trace, row.rank];
  rows.sort((a, b) => key(a)[0] - key(b)[0] || key(a)[1] - key(b)[1]);
  const lanes = new Set(rows.map((row) => `${row.trace}/${row.rank}`)).size;
  const [thread, stream, memory, gap] = lanes <= 8 ? [24, 14, 18, 13] : lanes <= 20 ? [15, 9, 12, 4] : [11, 7, 9, 3];
  let y = lanes <= 8 ? 12 : 4, before = null;
  for (const row of rows) {
    if (before && (before.rank !== row.rank || before.trace !== row.trace)) y += gap;
    row.y = y;
    row.height = { thread, stream, memory }[row.kind];
    y += row.height + 1;
    before = row;
  }
  return { rows, height: y + 4 };
}

// "0, 2-5" as a set of ranks; null for all.
function parseRanks(text) {
  const found = new Set();
  for (const [, from, to] of text.matchAll(/(\d+)(?:\s*-\s*(\d+))?/g))
    for (let rank = +from; rank <= Math.min(+(to ?? from), +from + 4096); rank++) found.add(rank);
  return found.size ? found : null;
}

class View {
  constructor(model, canvas, ruler, overview) {
    Object.assign(this, { model, canvas, ruler, overview, painter: new Painter(model) });
    this.left = 0;
    this.right = model.edge;
    this.cursor = null;
    this.selected = null; // {row, bar}
    this.matches = null; // a set of events for each trace, of the search
    this.scroll = 0;
  }

  get plot() {
    return Math.max(60, this.size - GUTTER - 8);
  }

  get scale() {
    return this.plot / (this.right - this.left);
  }

  x(u) {
    return GUTTER + (u - this.left) * this.scale;
  }

  u(x) {
    return this.left + (x - GUTTER) / this.scale;
  }

  // Shows from `left` to `right`, kept within the axis and not deeper than some 20 ns.
  show(left, right) {
    const least = Math.max(20 * scaleOf(this.model), this.model.edge * 1e-10);
    const width = Math.min(this.model.edge, Math.max(least, right - left));
    const middle = (left + right) / 2;
    this.left = Math.min(this.model.edge - width, Math.max(0, middle - width / 2));
    this.right = this.left + width;
  }

  zoom(factor, u = (this.left + this.right) / 2) {
    this.show(u - (u - this.left) / factor, u + (this.right - u) / factor);
  }

  pan(share) {
    const width = this.right - this.left, left = this.left + share * width;
    this.left = Math.min(this.model.edge - width, Math.max(0, left));
    this.right = this.left + width;
  }

  fit(canvas, height) {
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(this.size * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(this.size * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    const ctx = canvas.getContext("2d", { alpha: false });
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.fillStyle = this.painter.theme ? this.painter.theme.back : "#fff";
    ctx.fillRect(0, 0, this.size, height);
    return ctx;
  }

  draw(isDark) {
    this.painter.prepare(this.canvas.getContext("2d", { alpha: false }), isDark, window.devicePixelRatio || 1);
    const height = Math.min(this.layout.height, TALLEST);
    const ctx = this.fit(this.canvas, height);
    const found = { labels: [], thin: this.model.kinds.map(() => []), wide: this.model.kinds.map(() => []) };
    const view = { scale: this.scale, left: this.left, right: this.right, x0: GUTTER };
    const visible = this.layout.rows.filter((row) => row.y + row.height > this.scroll && row.y < this.scroll + height);
    ctx.fillStyle = this.painter.theme.lane;
    for (const row of visible) ctx.fillRect(GUTTER, row.y - this.scroll, this.plot, row.height);
    ctx.save();
    ctx.beginPath();
    ctx.rect(GUTTER, 0, this.plot, height);
    ctx.clip();
    for (const row of visible)
      if (row.kind === "memory") this.memory(ctx, row, row.y - this.scroll);
      else this.painter.collect(row, row.y - this.scroll, view, found);
    this.painter.paint(ctx, found);
    for (const row of visible) if (row.kind === "stream") this.issued(ctx, row, row.y - this.scroll);
    for (const row of visible) if (row.kind === "thread" && row.name === "0") this.marks(ctx, row, row.y - this.scroll);
    this.messages(ctx, visible);
    this.found(ctx, visible);
    this.cuts(ctx, height);
    this.pointers(ctx, visible, height);
    ctx.restore();
    this.names(ctx, visible);
    this.drawRuler();
    this.drawOverview();
  }

  names(ctx, visible) {
    const { ink, muted } = this.painter.theme;
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    for (const row of visible) {
      const main = row.kind === "thread" && row.name === "0";
      ctx.font = main && row.height >= 11 ? BOLD : SMALL;
      ctx.fillStyle = main ? ink : muted;
      const prefix = main && this.model.traces.length > 1 ? `${"AB"[row.trace]} ` : "";
      const stream = row.name.replace(/^comm:/, "").replace(/^stream:/, "stream ");
      const name = main ? `${prefix}rank ${row.rank}` : row.kind === "thread" ? `thread ${row.name}`
        : row.kind === "memory" ? `≤ ${size(row.peak)}` : stream === "default" ? "network" : stream;
      ctx.fillText(name.slice(0, 18), GUTTER - 6, row.y - this.scroll + row.height / 2 + 0.5);
    }
  }

  // Bytes of tensors over time, 0 at the bottom and the rank's peak at the top; the highest of what is closer than 2 pixels.
  memory(ctx, row, y) {
    const trace = this.model.traces[row.trace], u = trace.u.memory, held = trace.columns["memory.bytes"];
    const base = y + row.height, end = row.first + row.count, edge = GUTTER + this.plot, areas = [];
    let i = Math.max(row.first, upperBound(u, this.left, row.first, end) - 1), x = Math.max(GUTTER, this.x(u[i])), most = held[i];
    for (i++; i <= end && x < edge; i++) {
      const next = i < end ? Math.min(edge, this.x(u[i])) : Math.min(edge, this.x(u[end - 1]) + 1);
      if (next - x >= 2 || i === end) {
        const tall = Math.round(((row.height - 1) * most) / row.peak), last = areas.length - 3;
        if (last >= 0 && areas[last + 2] === tall) areas[last + 1] = next;
        else areas.push(x, next, tall);
        [x, most] = [next, 0];
      }
      if (i < end) most = Math.max(most, held[i]);
    }
    for (const [colour, thick] of [[this.painter.theme.faint, 0], [this.painter.theme.muted, 1]]) {
      ctx.fillStyle = colour;
      for (let k = 0; k < areas.length; k += 3) ctx.fillRect(areas[k], base - areas[k + 2], areas[k + 1] - areas[k], thick || areas[k + 2]);
    }
  }

  // In a stream: a tick where an operation was issued, and a line from there to its start, while it queues.
  issued(ctx, row, y) {
    const trace = this.model.traces[row.trace], { u0, event } = trace.bars, { issue } = trace.u;
    ctx.strokeStyle = this.painter.theme.ink;
    ctx.lineWidth = 1;
    ctx.beginPath();
    let drawn = -9;
    for (let i = firstVisible(trace, row, this.left); i < row.first + row.count && u0[i] < this.right; i++) {
      const from = this.x(issue[event[i]]), to = this.x(u0[i]);
      if (to - from < 3 || from - drawn < 2) continue;
      ctx.moveTo(from + 0.5, y + 1);
      ctx.lineTo(from + 0.5, y + row.height - 1);
      ctx.moveTo(from, y + row.height - 1.5);
      ctx.lineTo(to, y + row.height - 1.5);
      drawn = from;
    }
    ctx.stroke();
  }

  // Where a rank enters a step, and the faults that acted.
  marks(ctx, row, y) {
    const trace = this.model.traces[row.trace], [first, count] = trace.steps[row.rank] || [0, 0];
    const u = trace.u.step, number = trace.columns["step.number"], { muted, ink, alarm, back } = this.painter.theme;
    ctx.font = SMALL;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    let drawn = -99, named = -99;
    for (let i = Math.max(first, upperBound(u, this.left, first, first + count) - 1); i < first + count && u[i] <= this.right; i++) {
      const x = this.x(u[i]);
      if (x < GUTTER - 40 || x > GUTTER + this.plot || x - drawn < 14) continue;
      ctx.fillStyle = muted;
      ctx.fillRect(x, y - 3, 1, row.height + 4);
      drawn = x;
      if (row.height < 20 || x - named < 44) continue;
      ctx.fillText(`step ${number[i]}`, x + 3, y - 6);
      named = x;
    }
    ctx.fillStyle = ink;
    for (const [rank, at] of trace.notes) {
      const x = this.x(toAxis(this.model, at));
      if (rank !== row.rank || x < GUTTER - 4 || x > GUTTER + this.plot) continue;
      ctx.beginPath();
      ctx.moveTo(x - 4, y - 4);
      ctx.lineTo(x + 4, y - 4);
      ctx.lineTo(x, y + 4);
      ctx.fill();
    }
    for (const [event, op, text] of trace.faults) {
      if (trace.columns.rank[event] !== row.rank) continue;
      const x = this.x(toAxis(this.model, trace.columns.issue_ns[event])) + 7;
      ctx.font = BOLD;
      ctx.textBaseline = "middle";
      const wide = this.painter.measured(ctx, text) + 16, at = Math.min(x, GUTTER + this.plot - wide - 2);
      ctx.fillStyle = back;
      ctx.fillRect(at - 6, y + 1, wide + 4, row.height - 2);
      ctx.fillStyle = op === "kill" || op === "hang" || op === "preempt" ? alarm : ink;
      ctx.textAlign = "center";
      ctx.fillText(GLYPHS[op] || "◆", Math.max(x, at), y + row.height / 2 + 0.5);
      ctx.textAlign = "left";
      ctx.fillText(text, Math.max(x, at) + 8, y + row.height / 2 + 0.5);
    }
  }

  // Arrows from sends to their receives, unless there are too many to follow.
  messages(ctx, visible) {
    const lanes = new Map(visible.filter((row) => row.kind === "thread" && row.name === "0").map((row) => [`${row.trace}/${row.rank}`, row]));
    const lines = [];
    this.model.traces.forEach((trace, k) => {
      const c = trace.columns, pairs = c.message, u = (t) => toAxis(this.model, t);
      for (let i = 0; i < pairs.length && lines.length <= 60; i += 2) {
        const [send, recv] = [pairs[i], pairs[i + 1]];
        const [a, b] = [lanes.get(`${k}/${c.rank[send]}`), lanes.get(`${k}/${c.rank[recv]}`)];
        const [from, to] = [u(Math.max(c.start_ns[send], c.issue_ns[send])), u(c.end_ns[recv])];
        if (a && b && to >= this.left && from <= this.right) lines.push([this.x(from), a, this.x(to), b]);
      }
    });
    if (lines.length > 60) return;
    ctx.strokeStyle = ctx.fillStyle = this.painter.theme.ink;
    ctx.lineWidth = 1;
    for (const [x0, a, x1, b] of lines) {
      const down = b.y > a.y, y0 = a.y - this.scroll + (down ? a.height : 0), y1 = b.y - this.scroll + (down ? 0 : b.height);
      const angle = Math.atan2(y1 - y0, x1 - x0);
      ctx.beginPath();
      ctx.moveTo(x0, y0);
      ctx.lineTo(x1, y1);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(x1, y1);
      for (const turn of [-0.4, 0.4]) ctx.lineTo(x1 - 7 * Math.cos(angle + turn), y1 - 7 * Math.sin(angle + turn));
      ctx.fill();
    }
  }

  // A bar under everything that the search found.
  found(ctx, visible) {
    if (!this.matches) return;
    ctx.fillStyle = this.painter.theme.mark;
    for (const row of visible) {
      if (row.kind === "memory") continue;
      const trace = this.model.traces[row.trace], { u0, u1, event } = trace.bars, hits = this.matches[row.trace];
      let drawn = -9;
      for (let i = firstVisible(trace, row, this.left); i < row.first + row.count && u0[i] < this.right; i++) {
        if (!hits[event[i]]) continue;
        const x0 = Math.max(drawn, this.x(u0[i])), x1 = Math.max(x0 + 2, this.x(u1[i]));
        if (x1 - drawn < 2) continue;
        ctx.fillRect(x0, row.y - this.scroll + row.height - 3, x1 - x0, 4);
        drawn = x1;
      }
    }
  }

  // A stretch that is cut out of the axis: two slanted lines over all rows.
  cuts(ctx, height) {
    for (const [, , x0, x1, isCut] of this.model.axis) {
      const x = this.x((x0 + x1) / 2);
      if (!isCut || x < GUTTER || x > GUTTER + this.plot) continue;
      ctx.strokeStyle = this.painter.theme.back;
      ctx.lineWidth = 7;
      for (const pass of [0, 1]) {
        ctx.beginPath();
        for (const d of pass ? [-4, 4] : [0]) { ctx.moveTo(x + d + 3, 0); ctx.lineTo(x + d - 3, height); }
        ctx.stroke();
        ctx.strokeStyle = this.painter.theme.muted;
        ctx.lineWidth = 1;
      }
    }
  }

  // The time cursor; the selected bar with a thick outline, the same operation on other ranks with a dashed one.
  pointers(ctx, visible, height) {
    const { ink, mark } = this.painter.theme;
    if (this.cursor !== null) {
      ctx.fillStyle = ink;
      ctx.fillRect(Math.round(this.x(this.cursor)), 0, 1, height);
    }
    if (!this.selected) return;
    const { row: chosen, bar } = this.selected, trace = this.model.traces[chosen.trace], { u0, u1, event } = trace.bars;
    for (const row of visible) {
      if (row.kind === "memory" || row.trace !== chosen.trace) continue;
      for (let i = firstVisible(trace, row, this.left); i < row.first + row.count && u0[i] < this.right; i++) {
        const isChosen = i === bar;
        if (!isChosen && !(trace.columns.seq[event[bar]] >= 0 && isSame(trace, event[bar], event[i]))) continue;
        const x0 = Math.max(GUTTER - 4, this.x(u0[i])), x1 = Math.min(GUTTER + this.plot + 4, this.x(u1[i]));
        ctx.strokeStyle = mark;
        ctx.lineWidth = isChosen ? 3 : 1.5;
        ctx.setLineDash(isChosen ? [] : [4, 2]);
        ctx.strokeRect(x0 - 1, row.y - this.scroll - 0.5, Math.max(3, x1 - x0 + 2), row.height + 1);
      }
    }
    ctx.setLineDash([]);
  }

  drawRuler() {
    const ctx = this.fit(this.ruler, RULER), { ink, muted, faint } = this.painter.theme;
    ctx.font = FONT;
    ctx.textBaseline = "middle";
    ctx.fillStyle = ink;
    ctx.textAlign = "right";
    ctx.fillText(this.model.traces[0].clock.split(" ")[0], GUTTER - 6, RULER / 2);
    for (const [t0, t1, x0, x1, isCut] of this.model.axis) {
      if (x1 < this.left || x0 > this.right) continue;
      if (isCut) {
        const x = this.x((x0 + x1) / 2);
        ctx.fillStyle = muted;
        ctx.textAlign = "center";
        if (this.x(x1) - this.x(x0) > 90) ctx.fillText(`${duration(t1 - t0)} cut out`, x, RULER / 2);
        continue;
      }
      this.ticks(ctx, Math.max(t0, toTime(this.model, this.left)), t1, x1, ink, faint);
    }
  }

  ticks(ctx, from, t1, x1, ink, faint) {
    const to = x1 <= this.right ? t1 : toTime(this.model, this.right), pixels = this.x(toAxis(this.model, to)) - this.x(toAxis(this.model, from));
    if (!(to > from) || pixels < 8) return;
    const rough = (to - from) / Math.max(1, pixels / 100), power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= rough));
    ctx.textAlign = "left";
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const x = this.x(toAxis(this.model, t)), text = t === 0 ? "0" : instant(t, step);
      ctx.fillStyle = faint;
      ctx.fillRect(x, 0, 1, RULER);
      ctx.fillStyle = ink;
      if (x + this.painter.measured(ctx, text) + 4 < GUTTER + this.plot + 8) ctx.fillText(text, x + 3, RULER / 2);
    }
  }

  // The whole axis, and which part of it is shown.
  drawOverview() {
    const ctx = this.fit(this.overview, OVERVIEW), { muted, faint, ink } = this.painter.theme, whole = this.plot / this.model.edge;
    ctx.fillStyle = faint;
    ctx.fillRect(GUTTER, 5, this.plot, 4);
    ctx.fillStyle = muted;
    ctx.fillRect(GUTTER + this.left * whole, 2, Math.max(4, (this.right - this.left) * whole), 10);
    ctx.font = SMALL;
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    ctx.fillStyle = ink;
    ctx.fillText("in view", GUTTER - 6, OVERVIEW / 2);
  }

  // What was noted within a few pixels of x on the rank of {row, bar}.
  notesAt(at, x) {
    if (!at || at.row.kind !== "thread") return [];
    const near = ([rank, ns]) => rank === at.row.rank && Math.abs(this.x(toAxis(this.model, ns)) - x) < 5;
    return this.model.traces[at.row.trace].notes.filter(near).map(([, ns, text]) => `${text}, ${instant(ns, 1)}`);
  }

  // {row, bar} at a place of the canvas; a bar within 2 pixels counts. bar is -1 between bars.
  at(x, y) {
    const row = this.layout.rows.find((row) => y + this.scroll >= row.y - 1 && y + this.scroll <= row.y + row.height);
    if (!row || row.kind === "memory" || x < GUTTER) return row ? { row, bar: -1 } : null;
    const trace = this.model.traces[row.trace], u = this.u(x), slack = 2 / this.scale;
    let best = -1, distance = slack;
    for (let i = firstVisible(trace, row, u); i < row.first + row.count && trace.bars.u0[i] <= u + slack; i++) {
      const away = Math.max(0, trace.bars.u0[i] - u, u - trace.bars.u1[i]);
      if (away <= distance) [best, distance] = [i, away];
    }
    return { row, bar: best };
  }
}
