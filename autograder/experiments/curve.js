// A slider over recorded runs of DDP: the curve of step times, and the buckets of the chosen run under backward.

const NS = "http://www.w3.org/2000/svg";
const WIDE = 760, LEFT = 74, RIGHT = 16;

function svg(tag, attributes, ...children) {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function html(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const ms = (ns) => `${(ns / 1e6).toFixed(2)} ms`;
const mb = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

// Step time over bucket size, the latter on a logarithmic axis.
function curve(told, chosen) {
  const tall = 190, bottom = tall - 34, sizes = told.sizes, times = told.steps.map((steps) => steps[2].step_ns);
  const most = 1.1 * Math.max(...times), low = Math.log(sizes[0]), high = Math.log(sizes[sizes.length - 1]);
  const x = (size) => LEFT + 10 + ((Math.log(size) - low) / (high - low)) * (WIDE - LEFT - RIGHT - 40);
  const y = (ns) => bottom - (ns / most) * (bottom - 12);
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${tall}`, role: "img", "aria-label": told.alt });
  for (let t = 0; t <= most; t += 2e6)
    picture.append(svg("line", { x1: LEFT, x2: WIDE - RIGHT, y1: y(t), y2: y(t), class: "grid" }), svg("text", { x: LEFT - 8, y: y(t) + 4, class: "end" }, `${t / 1e6} ms`));
  for (const size of [1, 2.5, 5, 10, 25, 50, 100, 150]) picture.append(svg("text", { x: x(size), y: bottom + 15, class: "middle" }, `${size}`));
  picture.append(svg("text", { x: (LEFT + WIDE) / 2, y: tall - 4, class: "middle" }, "bucket size, MB"));
  picture.append(svg("polyline", { points: sizes.map((size, i) => `${x(size)},${y(times[i])}`).join(" "), class: "line" }));
  sizes.forEach((size, i) => {
    picture.append(svg("circle", { cx: x(size), cy: y(times[i]), r: i === chosen ? 7 : 3.5, class: i === chosen ? "chosen" : "point" }));
    if (i === chosen) picture.append(svg("text", { x: x(size), y: y(times[i]) - 12, class: i ? "middle strong" : "strong" }, ms(times[i])));
  });
  return picture;
}

// The program above, the network below: ticks where buckets are issued, boxes while they are on their way.
function strip(step, longest) {
  const tall = 116, x = (ns) => LEFT + (ns / longest) * (WIDE - LEFT - RIGHT), last = step.buckets[step.buckets.length - 1].end_ns;
  const label = `Backward is over after ${ms(step.backward_ns)}, the last of ${step.buckets.length} buckets arrives after ${ms(last)}.`;
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${tall}`, role: "img", "aria-label": label });
  const row = (y, name) => picture.append(svg("text", { x: LEFT - 8, y: y + 14, class: "end" }, name));
  row(8, "rank 0");
  row(48, "network");
  picture.append(svg("defs", {}, svg("pattern", { id: "lockstep-bars", width: 6, height: 6, patternUnits: "userSpaceOnUse" }, svg("rect", { width: 6, height: 6, fill: "#e69f00" }), svg("rect", { width: 1, height: 6, fill: "#c98b00" }))));
  picture.append(svg("rect", { x: x(0), y: 8, width: x(step.backward_ns) - x(0), height: 22, class: "compute" }));
  picture.append(svg("text", { x: (x(0) + x(step.backward_ns)) / 2, y: 23, class: "middle onbucket" }, "forward, backward"));
  if (last > step.backward_ns) {
    picture.append(svg("rect", { x: x(step.backward_ns), y: 8, width: x(last) - x(step.backward_ns), height: 22, class: "waits" }));
    if (x(last) - x(step.backward_ns) > 100) picture.append(svg("text", { x: (x(last) + x(step.backward_ns)) / 2, y: 23, class: "middle" }, `waits ${ms(last - step.backward_ns)}`));
  }
  for (const bucket of step.buckets) {
    const wide = x(bucket.end_ns) - x(bucket.start_ns);
    picture.append(svg("rect", { x: x(bucket.start_ns), y: 48, width: Math.max(1, wide - 2), height: 22, class: "bucket" }, svg("title", {}, `${mb(bucket.bytes)}, issued ${ms(bucket.issue_ns)}, started ${ms(bucket.start_ns)}, arrived ${ms(bucket.end_ns)}`)));
    if (wide > 54) picture.append(svg("rect", { x: x(bucket.start_ns) + wide / 2 - 24, y: 51, width: 48, height: 16, fill: "#e69f00" }), svg("text", { x: x(bucket.start_ns) + wide / 2, y: 63, class: "middle onbucket" }, mb(bucket.bytes)));
    picture.append(svg("line", { x1: x(bucket.issue_ns), x2: x(bucket.issue_ns), y1: 34, y2: 46, class: "issued" }));
  }
  for (let t = 0; t <= longest; t += 1e6) picture.append(svg("line", { x1: x(t), x2: x(t), y1: 76, y2: 80, class: "issued" }), svg("text", { x: x(t), y: 92, class: "middle" }, t ? `${t / 1e6} ms` : "0"));
  picture.append(svg("text", { x: LEFT, y: 110 }, "short lines: a bucket is issued; boxes: it is on its way"));
  return picture;
}

function render({ model, el }) {
  const bytes = model.get("data"), told = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)));
  const slider = html("input", { type: "range", min: 0, max: told.sizes.length - 1, step: 1, value: model.get("at"), "aria-label": "bucket size" });
  const which = html("select", { "aria-label": "iteration" }, ...[1, 2, 3].map((n) => html("option", { value: n - 1 }, `iteration ${n}`)));
  which.value = "2";
  const said = html("div", { class: "said", "aria-live": "polite" }), top = html("div"), below = html("div");
  const root = html("div", { class: "lockstep-curve" }, html("div", {}, told.what), top,
    html("label", {}, "bucket size ", slider), which, said, below, html("details", {}, html("summary", {}, "The same as text"), html("pre", {}, told.text)));
  const common = 1.03 * Math.max(...told.steps.map((steps) => steps[0].step_ns)); // one scale for all but very small buckets
  const draw = () => {
    const at = +slider.value, step = told.steps[at][+which.value], last = step.buckets[step.buckets.length - 1];
    const exposed = Math.max(0, last.end_ns - step.backward_ns);
    const many = step.buckets.length === 1 ? "one bucket" : `${step.buckets.length} buckets`;
    const words = `${told.sizes[at]} MB: ${many}, step ${ms(step.step_ns)}, of which ${ms(exposed)} after backward waiting for the network.`;
    slider.setAttribute("aria-valuetext", words);
    const why = +which.value === 0 ? " In iteration 1 DDP does not know the order yet: one bucket, whatever its size." : "";
    said.textContent = words + why;
    top.replaceChildren(curve(told, at));
    below.replaceChildren(strip(step, Math.max(common, 1.03 * step.step_ns)));
  };
  slider.addEventListener("input", draw);
  which.addEventListener("input", draw);
  el.append(root);
  draw();
}

export default { render };
