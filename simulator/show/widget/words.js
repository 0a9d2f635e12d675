// What is said of an event: the tooltip, the status line and what a screen reader hears are the same words.

function word(model, trace, name, event) {
  return model.strings[trace.columns[name][event]];
}

function rankName(model, k, rank) {
  return model.traces.length > 1 ? `${model.traces[k].name}, rank ${rank}` : `rank ${rank}`;
}

// The lines that tell one bar: the event behind it, and which part of it the bar is.
function tell(model, k, bar) {
  const trace = model.traces[k], c = trace.columns, event = trace.bars.event[bar];
  const kind = model.kinds[trace.bars.kind[bar]], t0 = trace.bars.t0[bar], t1 = trace.bars.t1[bar];
  const part = kind === "compute" ? "" : `: ${model.looks[kind].words}`;
  const took = t1 < 0 ? "no end" : duration(t1 - t0);
  return [`${rankName(model, k, c.rank[event])}: ${word(model, trace, "label", event)}${part}, ${took}`,
    ...tellEvent(model, k, event)];
}

function tellEvent(model, k, event) {
  const trace = model.traces[k], c = trace.columns, of = (name) => word(model, trace, name, event);
  const at = (name) => c[name][event] >= 0 && instant(c[name][event], 1);
  const lines = [];
  const where = [c.step[event] >= 0 && `step ${c.step[event]}`, of("phase"), of("module"),
    of("thread") !== "0" && `thread ${of("thread")}`, c.incarnation[event] > 0 && `start ${c.incarnation[event] + 1} of the job`];
  const what = [of("reduce"), c.bytes[event] > 0 && size(c.bytes[event]), c.flops[event] > 0 && `${(c.flops[event] / 1e9).toPrecision(3)} GFLOP`,
    of("status") !== "ok" && `ended: ${of("status")}`, of("detail")];
  const isLocal = c.wait_ns[event] < 0 && c.seq[event] < 0 && c.peer[event] < 0;
  const when = [!isLocal && at("issue_ns") && `issued ${at("issue_ns")}`, at("start_ns") && `started ${at("start_ns")}`,
    at("wait_ns") && `waited for since ${at("wait_ns")}`, at("end_ns") && `ended ${at("end_ns")}`];
  for (const parts of [[...where, ...what], when, [of("site") && `called at ${of("site")}`]]) {
    const line = parts.filter(Boolean).join(" · ");
    if (line) lines.push(line);
  }
  return lines;
}

// What every rank does at a time, in one line a rank: the keyboard's way to read a column of the picture.
function tellTime(model, rows, u) {
  const lines = [];
  for (const row of rows) {
    if (row.kind !== "thread") continue;
    const trace = model.traces[row.trace];
    const i = firstVisible(trace, row, u), end = row.first + row.count;
    let doing = "nothing that takes time";
    for (let bar = i; bar < end && trace.bars.u0[bar] <= u; bar++)
      if (trace.bars.u1[bar] >= u) doing = `${word(model, trace, "label", trace.bars.event[bar])}, ${model.looks[model.kinds[trace.bars.kind[bar]]].words}`;
    lines.push(`${rankName(model, row.trace, row.rank)}: ${doing.replace("compute, compute", "compute")}`);
  }
  return lines;
}

// The same operation on the other ranks: a collective has a number in its group.
function isSame(trace, event, other) {
  const c = trace.columns;
  return c.seq[event] >= 0 && c.seq[other] === c.seq[event] && c.group[other] === c.group[event]
    && c.incarnation[other] === c.incarnation[event];
}
