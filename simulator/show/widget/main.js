// The widget: buttons, search, places, pointer and keyboard around the picture. `render` is what anywidget calls; a page
// written by `lockstep timeline --html` calls it with the data that it carries.

const KEYS = [
  ["← →", "previous, next bar of the row"], ["↑ ↓", "the row above, below"], ["Enter", "zoom to the bar"],
  ["+ −", "zoom in, out"], ["Shift + ← →", "move the view"], ["Home, End", "first, last bar of the row"], ["F", "everything"],
  [", .", "move the time cursor; says what every rank does there"], ["/", "search"], ["N, P", "next, previous find"], ["Esc", "let go"],
];

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function isDarkPage() {
  const jupyter = document.body.dataset.jpThemeLight;
  return jupyter === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : jupyter === "false";
}

class Timeline {
  constructor(model, root) {
    Object.assign(this, { model, root });
    this.build();
    this.view = new View(model, this.canvas, this.ruler, this.overview);
    this.arrange();
    this.listen();
  }

  build() {
    const { model } = this, two = model.traces.length > 1;
    const button = (text, label, act) => element("button", { type: "button", title: label, "aria-label": label, onclick: act }, text);
    this.search = element("input", { type: "search", placeholder: "search: all_reduce, backward, train.py:12", "aria-label": "Search operations, phases, places in the program", oninput: () => this.find(), onkeydown: (e) => this.searchKey(e) });
    this.count = element("span", { class: "lockstep-count", role: "status" });
    this.ranks = element("input", { type: "text", class: "lockstep-ranks", placeholder: "all ranks", "aria-label": "Ranks to show, such as 0, 2-5", title: "ranks to show, such as 0, 2-5", oninput: () => this.arrange() });
    this.places = element("select", { "aria-label": "Go to a place", onchange: () => this.goTo(model.places[this.places.value]) },
      element("option", { value: "" }, model.places.length ? "Go to …" : "Nothing to go to"),
      ...model.places.map((place, i) => element("option", { value: i }, place.text)));
    this.order = element("select", { "aria-label": "Order of the rows", onchange: () => this.arrange() },
      element("option", { value: "trace" }, "trace by trace"), element("option", { value: "rank" }, "rank by rank"));
    this.bar = element("div", { class: "lockstep-bar" },
      button("−", "Zoom out", () => this.zoom(0.5)), button("+", "Zoom in", () => this.zoom(2)), button("◀", "Earlier", () => this.pan(-0.5)),
      button("▶", "Later", () => this.pan(0.5)), button("Fit", "Show everything", () => this.fitAll()), this.places, this.ranks, ...(two ? [this.order] : []), this.search, this.count);
    [this.ruler, this.canvas, this.overview] = ["ruler", "rows", "overview"].map((name) => element("canvas", { class: `lockstep-${name}` }));
    this.canvas.setAttribute("tabindex", "0");
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", "timeline");
    this.canvas.setAttribute("aria-label", `${model.traces.map((trace) => trace.alt).join(" ")} Arrow keys go from bar to bar; the text is below.`);
    this.filler = element("div");
    this.scroller = element("div", { class: "lockstep-scroller", onscroll: () => this.draw() }, this.canvas, this.filler);
    this.status = element("div", { class: "lockstep-status", "aria-live": "polite" });
    this.tip = element("div", { class: "lockstep-tip", hidden: "" });
    this.legend = element("div", { class: "lockstep-legend" });
    const heads = model.traces.map((trace, k) => element("div", { class: "lockstep-head" },
      element("strong", {}, (two ? `${"AB"[k]}: ${trace.name}. ` : "") + trace.headline), ` ${trace.reading}`));
    const texts = model.traces.map((trace) => element("pre", {}, trace.text));
    const keys = element("dl", {}, ...KEYS.flatMap(([key, what]) => [element("dt", {}, key), element("dd", {}, what)]));
    this.root.replaceChildren(...heads, this.bar, this.ruler, this.scroller, this.overview, this.legend, this.status, this.tip,
      element("details", {}, element("summary", {}, "The same as text"), ...texts),
      element("details", {}, element("summary", {}, "Keys and mouse"), keys,
        element("p", {}, "Drag to move, Ctrl and wheel to zoom at the pointer, double click to zoom to a bar, click to select it and the same operation on the other ranks. Drag in the strip below the rows to move through the whole time.")));
    this.root.classList.add("lockstep-timeline");
    this.status.textContent = "Select a bar to read about it.";
  }

  // What depends on which rows are shown.
  arrange() {
    const { view } = this;
    const ranks = parseRanks(this.ranks.value);
    view.layout = layOut(this.model, this.order.value, ranks);
    if (view.selected) view.selected.row = view.layout.rows.find((row) => row.trace === view.selected.row.trace && row.first === view.selected.row.first) || null;
    if (view.selected && !view.selected.row) view.selected = null;
    const height = Math.min(view.layout.height, TALLEST);
    this.scroller.style.height = `${height}px`;
    this.filler.style.height = `${Math.max(0, view.layout.height - height)}px`;
    this.draw();
  }

  listen() {
    const { canvas, overview } = this;
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(this.root);
    this.themes = new MutationObserver(() => this.draw());
    this.themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
    canvas.addEventListener("keydown", (e) => this.key(e));
    canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    canvas.addEventListener("pointerdown", (e) => this.press(e));
    canvas.addEventListener("pointermove", (e) => this.move(e));
    canvas.addEventListener("pointerup", (e) => this.release(e));
    canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    canvas.addEventListener("dblclick", (e) => this.enter(this.view.at(...this.place(e))));
    canvas.addEventListener("blur", () => { this.tip.hidden = true; });
    const jump = (e) => {
      if (!e.buttons) return;
      const half = (this.view.right - this.view.left) / 2, u = ((e.offsetX - GUTTER) / this.view.plot) * this.model.edge;
      this.view.show(u - half, u + half);
      this.draw();
    };
    overview.addEventListener("pointerdown", (e) => { overview.setPointerCapture(e.pointerId); jump(e); });
    overview.addEventListener("pointermove", jump);
  }

  close() {
    this.watch.disconnect();
    this.themes.disconnect();
  }

  draw() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => { this.asked = 0; this.paint(); });
  }

  paint() {
    const { view } = this, isDark = isDarkPage();
    const width = this.scroller.clientWidth;
    if (width < 50) return; // not in the page yet
    view.size = width;
    view.scroll = this.scroller.scrollTop;
    this.root.classList.toggle("lockstep-dark", isDark);
    const begin = performance.now();
    view.draw(isDark);
    this.lastFrameMs = performance.now() - begin;
    if (this.legendOf !== isDark) this.drawLegend(isDark);
  }

  drawLegend(isDark) {
    this.legendOf = isDark;
    const { model, view } = this, ratio = window.devicePixelRatio || 1, used = new Set(), entries = [];
    for (const trace of model.traces) for (const kind of trace.bars.kind) used.add(model.kinds[kind]);
    for (const kind of model.kinds.filter((kind) => used.has(kind))) {
      const swatch = element("canvas", { width: 22 * ratio, height: 11 * ratio, class: "lockstep-swatch" }), ctx = swatch.getContext("2d");
      ctx.scale(ratio, ratio);
      ctx.fillStyle = view.painter.fills[model.kinds.indexOf(kind)];
      ctx.fillRect(0, 0, 22, 11);
      ctx.strokeStyle = view.painter.theme.looks[kind].edge;
      ctx.strokeRect(0.5, 0.5, 21, 10);
      entries.push(element("span", {}, swatch, model.looks[kind].words));
    }
    const rows = model.traces.flatMap((trace) => trace.rows);
    if (rows.some((row) => row.kind === "stream")) entries.push(element("span", {}, "thin rows: streams beside the program; | — issued, then queues"));
    if (rows.some((row) => row.kind === "memory")) entries.push(element("span", {}, "grey area: tensor memory, up to the rank's peak"));
    if (model.traces.some((trace) => trace.notes.length)) entries.push(element("span", {}, `▾ ${model.noted}`));
    const ops = new Set(model.traces.flatMap((trace) => trace.faults.map(([, op]) => op)));
    for (const op of ops) entries.push(element("span", {}, `${GLYPHS[op] || "◆"} ${model.marks[op]}`));
    this.legend.replaceChildren(...entries);
  }

  place(e) {
    const box = this.canvas.getBoundingClientRect();
    return [e.clientX - box.left, e.clientY - box.top];
  }

  wheel(e) {
    const { view } = this;
    if (e.ctrlKey || e.metaKey) view.zoom(Math.exp(-e.deltaY / 300), view.u(this.place(e)[0]));
    else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) view.pan((e.deltaX || e.deltaY) / view.plot);
    else return; // the page scrolls
    e.preventDefault();
    this.draw();
  }

  press(e) {
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(e.pointerId);
    this.dragged = { x: e.clientX, left: this.view.left, moved: false };
  }

  move(e) {
    const { view, dragged } = this, [x, y] = this.place(e);
    if (dragged && e.buttons) {
      const by = (dragged.x - e.clientX) / view.scale, width = view.right - view.left;
      dragged.moved ||= Math.abs(dragged.x - e.clientX) > 3;
      if (dragged.moved) view.show(dragged.left + by, dragged.left + by + width);
    } else this.hover(x, y, e);
    view.cursor = x > GUTTER ? view.u(x) : null;
    this.draw();
  }

  hover(x, y, e) {
    const at = this.view.at(x, y), notes = this.view.notesAt(at, x);
    this.tip.hidden = !at || (at.bar < 0 && !notes.length);
    if (this.tip.hidden) return;
    const lines = at.bar < 0 ? notes : [...notes, ...tell(this.model, at.row.trace, at.bar)];
    this.tip.replaceChildren(...lines.map((line) => element("div", {}, line)));
    const box = this.root.getBoundingClientRect(), wide = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(e.clientX - box.left + 14, box.width - wide - 4))}px`;
    this.tip.style.top = `${e.clientY - box.top + 18}px`;
  }

  release(e) {
    const { dragged } = this;
    this.dragged = null;
    if (dragged && !dragged.moved) this.select(this.view.at(...this.place(e)));
  }

  // Selects a bar (or nothing), says what it is and scrolls it into view.
  select(at) {
    const { view } = this;
    view.selected = at && at.bar >= 0 ? at : null;
    if (view.selected) {
      const { row, bar } = at, { u0, u1 } = this.model.traces[row.trace].bars;
      this.say(tell(this.model, row.trace, bar));
      if (row.y < this.scroller.scrollTop || row.y + row.height > this.scroller.scrollTop + this.scroller.clientHeight) this.scroller.scrollTop = row.y - 60;
      if (u1[bar] < view.left || u0[bar] > view.right) view.show(u0[bar] - (view.right - view.left) / 2, u0[bar] + (view.right - view.left) / 2);
    }
    this.draw();
  }

  say(lines) {
    this.status.replaceChildren(...lines.map((line) => element("div", {}, line)));
  }

  zoom(factor) {
    const { view } = this, chosen = view.selected && this.model.traces[view.selected.row.trace].bars;
    const u = chosen ? (Math.max(chosen.u0[view.selected.bar], view.left) + Math.min(chosen.u1[view.selected.bar], view.right)) / 2 : undefined;
    view.zoom(factor, u === undefined || u < view.left || u > view.right ? undefined : u);
    this.draw();
  }

  pan(share) {
    this.view.pan(share);
    this.draw();
  }

  fitAll() {
    this.view.show(0, this.model.edge);
    this.draw();
  }

  // Zooms to a bar, so that it fills a third of the picture.
  enter(at) {
    if (!at || at.bar < 0) return;
    const { u0, u1 } = this.model.traces[at.row.trace].bars, wide = u1[at.bar] - u0[at.bar];
    this.view.show(u0[at.bar] - wide, u1[at.bar] + wide);
    this.select(at);
  }

  // The bar of an event: in the row of its thread if it has one there, else in its stream; else the time of it.
  goTo(place) {
    if (!place) return;
    this.ranks.value = "";
    this.arrange();
    const trace = this.model.traces[place.trace], { event } = trace.bars;
    for (const row of this.view.layout.rows) {
      if (row.trace !== place.trace || row.kind === "memory") continue;
      const bar = event.subarray(row.first, row.first + row.count).indexOf(place.event);
      if (bar >= 0) return void this.enter({ row, bar: row.first + bar });
    }
    const u = toAxis(this.model, trace.columns.issue_ns[place.event]), half = Math.min(this.model.edge, this.view.right - this.view.left) / 4;
    this.view.show(u - half, u + half);
    this.view.cursor = u;
    this.view.selected = null;
    this.say(tellEvent(this.model, place.trace, place.event).concat(place.text));
    this.draw();
  }

  // Marks every event whose label, phase, module, group, status or call site has the words.
  find() {
    const { model, view } = this, text = this.search.value.trim().toLowerCase();
    view.matches = null;
    this.count.textContent = "";
    this.hits = [];
    if (text) {
      const fits = Uint8Array.from(model.strings, (string) => +string.toLowerCase().includes(text));
      view.matches = model.traces.map(({ columns: c }) => Uint8Array.from(c.label, (label, n) =>
        fits[label] | fits[c.phase[n]] | fits[c.module[n]] | fits[c.group[n]] | fits[c.status[n]] | fits[c.site[n]] | fits[c.detail[n]]));
      for (const row of view.layout.rows) {
        if (row.kind === "memory") continue;
        for (let bar = row.first; bar < row.first + row.count; bar++)
          if (view.matches[row.trace][model.traces[row.trace].bars.event[bar]]) this.hits.push({ row, bar });
      }
      this.hits.sort((a, b) => model.traces[a.row.trace].bars.u0[a.bar] - model.traces[b.row.trace].bars.u0[b.bar]);
      this.hit = -1;
      const events = view.matches.reduce((sum, hits) => sum + hits.reduce((n, hit) => n + hit, 0), 0);
      this.count.textContent = `${events.toLocaleString("en-US")} found`;
    }
    this.draw();
  }

  searchKey(e) {
    e.stopPropagation();
    if (e.key === "Enter") this.next(e.shiftKey ? -1 : 1);
    if (e.key === "Escape") { this.search.value = ""; this.find(); this.canvas.focus(); }
  }

  next(by) {
    if (!this.hits || !this.hits.length) return;
    this.hit = (this.hit + by + this.hits.length) % this.hits.length;
    this.select(this.hits[this.hit]);
    this.count.textContent = `${this.hit + 1} of ${this.hits.length} bars`;
  }

  key(e) {
    const { view } = this, scrub = (e.key === "." ? 1 : -1) * (view.right - view.left) / 50;
    const acts = {
      ArrowLeft: () => (e.shiftKey ? this.pan(-0.25) : this.step(-1)), ArrowRight: () => (e.shiftKey ? this.pan(0.25) : this.step(1)),
      ArrowUp: () => this.row(-1), ArrowDown: () => this.row(1), Home: () => this.step(-Infinity), End: () => this.step(Infinity),
      Enter: () => this.enter(view.selected), "+": () => this.zoom(2), "=": () => this.zoom(2), "-": () => this.zoom(0.5),
      f: () => this.fitAll(), 0: () => this.fitAll(), "/": () => this.search.focus(), n: () => this.next(1), p: () => this.next(-1),
      ",": () => this.scrub(scrub), ".": () => this.scrub(scrub), Escape: () => { view.cursor = null; this.select(null); },
    };
    const act = acts[e.key] || acts[e.key.toLowerCase()];
    if (!act || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    e.stopPropagation(); // a notebook has shortcuts of its own
    act();
  }

  step(by) {
    const { view } = this;
    if (!view.selected) {
      const row = view.layout.rows.find((row) => row.kind !== "memory" && row.count);
      if (row) this.select({ row, bar: Math.min(row.first + row.count - 1, firstVisible(this.model.traces[row.trace], row, view.left)) });
      return;
    }
    const { row, bar } = view.selected;
    this.select({ row, bar: Math.max(row.first, Math.min(row.first + row.count - 1, bar + by)) });
  }

  // To the bar of the next row that is nearest in time.
  row(by) {
    const { view } = this;
    if (!view.selected) return this.step(1);
    const { rows } = view.layout, { row, bar } = view.selected, u = this.model.traces[row.trace].bars.u0[bar];
    for (let k = rows.indexOf(row) + by; rows[k]; k += by) {
      if (rows[k].kind === "memory" || !rows[k].count) continue;
      const { u0 } = this.model.traces[rows[k].trace].bars;
      return this.select({ row: rows[k], bar: Math.max(rows[k].first, upperBound(u0, u, rows[k].first, rows[k].first + rows[k].count) - 1) });
    }
  }

  scrub(by) {
    const { view } = this, start = view.cursor ?? (view.left + view.right) / 2;
    view.cursor = Math.max(0, Math.min(this.model.edge, start + by));
    if (view.cursor < view.left || view.cursor > view.right) view.pan(Math.sign(by) * 0.5);
    const t = toTime(this.model, view.cursor);
    this.say([`At ${instant(t, Math.max(1, Math.abs(by) / scaleOf(this.model)))}:`, ...tellTime(this.model, view.layout.rows, view.cursor)]);
    this.draw();
  }
}

// Shows packed traces in an element; resolves to the Timeline.
async function show(bytes, root, at = -1) {
  const shown = new Timeline(await decode(bytes), root);
  root.lockstep = shown;
  if (at >= 0) shown.goTo(shown.model.places[at]);
  return shown;
}

// For anywidget.
async function render({ model, el }) {
  const data = model.get("data"), root = element("div");
  el.append(root);
  const shown = await show(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), root, model.get("at"));
  const go = () => shown.goTo(shown.model.places[model.get("at")]);
  model.on("change:at", go);
  return () => {
    model.off("change:at", go);
    shown.close();
  };
}
