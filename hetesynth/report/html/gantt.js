"use strict";
// The time chart: a canvas as large as what is visible, so that thousands of rows cost no more than a screenful.
function gantt() {
  const box = byId("gantt"), canvas = byId("gantt-canvas"), space = byId("gantt-space"), g = canvas.getContext("2d");
  const sources = rowSources(), TOP = 26, ROW = 18;
  let source = sources[0], rows = [], view = [0, 1], width = 300, height = 300, gutter = 170, chosen = null, hover = null, asked = 0;

  d3.select("#rows").selectAll("option").data(sources).join("option").attr("value", (_, i) => i).text((s) => s.name);

  const rowHeight = () => (byId("compact").checked ? Math.max((height - TOP) / Math.max(1, rows.length), 0.25) : ROW);
  const x = (us) => gutter + ((us - view[0]) / (view[1] - view[0])) * (width - gutter - 6);
  const usAt = (px) => view[0] + ((px - gutter) / (width - gutter - 6)) * (view[1] - view[0]);
  const shown = (i) => State.chunk < 0 || source.moves(i, State.chunk);

  function select() {
    const words = byId("find").value.toLowerCase().replaceAll("→", "->").split(",").map((w) => w.trim()).filter(Boolean);
    rows = source.rows.filter((r) => !words.length || words.some((w) => r.name.toLowerCase().includes(w)));
    if (State.chunk >= 0) rows = rows.filter((r) => r.bars.some(shown));
    if (byId("order").value === "busy") rows = rows.slice().sort((a, b) => b.busy - a.busy || a.key - b.key);
    if (chosen && !rows.includes(chosen.row)) chosen = null;
    size();
    const of = State.chunk >= 0 ? ` that ${chunkName(State.chunk)} crosses` : "";
    byId("gantt-said").textContent = `${plural(rows.length, "row")}${of}: ${source.name}, ${micros(source.us)} in all${view[0] > 0 || view[1] < source.us ? `; shown is ${micros(view[0])} to ${micros(view[1])}` : ""}.`;
    refreshTable();
  }
  function size() {
    width = Math.max(260, box.clientWidth);
    height = Math.max(200, box.clientHeight);
    gutter = width < 600 ? 124 : 178;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    space.style.height = `${Math.max(0, TOP + rows.length * rowHeight() - height)}px`;
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    redraw();
  }
  function redraw() { if (!asked) asked = requestAnimationFrame(() => { asked = 0; paint(); }); }

  function paint() {
    const tall = rowHeight(), top = box.scrollTop, panel = ink("--panel"), line = ink("--line"), text = ink("--ink"), page = ink("--page"), quiet = ink("--quiet");
    g.fillStyle = page; g.fillRect(0, 0, width, height);
    const first = Math.max(0, Math.floor(top / tall)), last = Math.min(rows.length, Math.ceil((top + height - TOP) / tall) + 1);
    g.save(); g.beginPath(); g.rect(0, TOP, width, height - TOP); g.clip();
    for (let k = first; k < last; k++) {
      const y = TOP + k * tall - top, row = rows[k];
      if (tall >= 8) { g.fillStyle = chosen && chosen.row === row ? ink("--mark") : k % 2 ? page : panel; g.fillRect(0, y, width, tall); }
      paintRow(row, y, tall, quiet);
    }
    g.fillStyle = page; g.fillRect(0, TOP, gutter - 4, height);
    for (let k = first; k < last; k++) {
      const y = TOP + k * tall - top;
      if (tall < 9) { nameSome(k, y, tall, text); continue; }
      if (chosen && chosen.row === rows[k]) { g.fillStyle = ink("--mark"); g.fillRect(0, y, gutter - 4, tall); }
      g.fillStyle = text; g.font = "11.5px system-ui, sans-serif"; g.textBaseline = "middle"; g.textAlign = "left";
      g.fillText(fitted(rows[k].name), 4, y + tall / 2);
    }
    if (chosen && chosen.bar >= 0) outline(tall, top, text);
    g.restore();
    axis(text, line, page);
    if (!rows.length) { g.fillStyle = text; g.textAlign = "left"; g.fillText("No row has that.", gutter, TOP + 24); }
  }
  const lengths = new Map();
  function fitted(name) {
    const key = name + gutter;
    if (!lengths.has(key)) {
      if (gutter < 150) name = name.replace(/^GPU (\d+) block /, "$1 b").replace(" from ", " ").replace(" to ", "→");
      const head = /^(GPU )?\d+ b/.test(name) ? 1 : 0.5;  // a thread block is known by its begin, a wire by both of its ends
      let cut = name, keep = name.length;
      while (keep > 6 && g.measureText(cut).width > gutter - 12) { keep -= 1; cut = `${name.slice(0, Math.ceil(keep * head))}…${name.slice(name.length - Math.floor(keep * (1 - head)))}`; }
      lengths.set(key, cut);
    }
    return lengths.get(key);
  }
  function nameSome(k, y, tall, text) {
    const every = Math.ceil(14 / tall);
    if (k % every) return;
    g.fillStyle = text; g.font = "10.5px system-ui, sans-serif"; g.textBaseline = "middle"; g.textAlign = "left";
    g.fillText(fitted(rows[k].name), 4, y + 7);
  }
  function colourOf(i) {
    if (byId("colour").value === "chunk") { const chunk = State.chunk >= 0 ? State.chunk : source.chunk(i); return chunk < 0 ? ink("--wire") : colours("c", chunk); }
    return colours("s", source.step(i));
  }
  let known = new Map();
  function colours(kind, n) {
    const key = kind + n;
    if (!known.has(key)) known.set(key, kind === "c" ? chunkColour(n) : stepColour(n, source.steps));
    return known.get(key);
  }
  function paintRow(row, y, tall, quiet) {
    const gap = tall >= 8 ? 2 : 0, lane = (tall - gap) / row.count, bars = row.bars, begin = source.begin, end = source.end;
    let k = row.count === 1 ? d3.bisector((i) => end(i)).left(bars, view[0]) : 0;
    for (; k < bars.length; k++) {
      const i = bars[k];
      if (begin(i) > view[1]) break;
      if (end(i) < view[0] || !shown(i)) continue;
      const a = Math.max(gutter, x(begin(i))), b = Math.min(width - 4, x(end(i))), at = y + gap / 2 + row.lanes[k] * lane, high = Math.max(0.6, lane - (lane > 5 ? 1 : 0));
      if (source.wait) {
        const ready = Math.min(b, Math.max(a, x(source.wait(i))));
        g.fillStyle = quiet; g.globalAlpha = 0.28; g.fillRect(a, at + high * 0.3, Math.max(0.5, ready - a), Math.max(0.5, high * 0.4)); g.globalAlpha = 1;
        g.fillStyle = colourOf(i); g.fillRect(ready === b ? b - 1 : ready, at, Math.max(1.5, b - ready - (b - ready > 4 ? 0.7 : 0)), high);
      } else {
        g.fillStyle = colourOf(i); g.fillRect(a, at, Math.max(1, b - a - (b - a > 4 ? 0.7 : 0)), high);
        if (b - a > 26 && high >= 12) { g.fillStyle = d3.lab(g.fillStyle).l > 55 ? "#10161c" : "#ffffff"; g.font = "10.5px system-ui, sans-serif"; g.textBaseline = "middle"; g.textAlign = "left"; g.fillText(String(source.chunk(i)), a + 4, at + high / 2 + 0.5); }
      }
    }
  }
  function outline(tall, top, text) {
    const k = rows.indexOf(chosen.row), i = chosen.row.bars[chosen.bar], lane = tall / chosen.row.count;
    const a = Math.max(gutter, x(source.begin(i))), b = Math.min(width - 4, x(source.end(i)));
    if (b < gutter || a > width) return;
    g.strokeStyle = text; g.lineWidth = 2;
    g.strokeRect(a - 1, TOP + k * tall - top + chosen.row.lanes[chosen.bar] * lane, Math.max(3, b - a + 2), Math.max(3, lane));
  }
  function axis(text, line, page) {
    g.fillStyle = page; g.fillRect(0, 0, width, TOP);
    const scale = d3.scaleLinear(view, [gutter, width - 6]), ms = view[1] >= 10000, ticks = scale.ticks(Math.max(2, Math.floor((width - gutter) / 95)));
    g.font = "11px system-ui, sans-serif"; g.textBaseline = "middle"; g.fillStyle = text;
    const apart = ticks.length > 1 ? ticks[1] - ticks[0] : 1, digits = Math.max(0, -Math.floor(Math.log10(ms ? apart / 1000 : apart) + 1e-9));
    ticks.forEach((t) => {
      const at = scale(t);
      g.textAlign = at > width - 40 ? "right" : at < gutter + 12 ? "left" : "center";
      g.fillText(d3.format(`,.${Math.min(6, digits)}f`)(ms ? t / 1000 : t), at, 11);
      g.strokeStyle = line; g.lineWidth = 1; g.globalAlpha = 0.7;
      g.beginPath(); g.moveTo(at + 0.5, 19); g.lineTo(at + 0.5, height); g.stroke(); g.globalAlpha = 1;
    });
    g.textAlign = "left"; g.fillText(ms ? "Time, ms" : "Time, µs", 4, 11);
    g.strokeStyle = line; g.beginPath(); g.moveTo(0, TOP - 0.5); g.lineTo(width, TOP - 0.5); g.stroke();
  }

  // -- time and rows
  function show(from, to) {
    const least = Math.max(source.us / 1e5, 1e-4), span = Math.min(source.us, Math.max(least, to - from));
    from = Math.max(0, Math.min(source.us - span, from));
    view = [from, from + span];
    select();
  }
  function zoom(factor, at = (view[0] + view[1]) / 2) { show(at - (at - view[0]) / factor, at + (view[1] - at) / factor); }
  const pan = (share) => show(view[0] + share * (view[1] - view[0]), view[1] + share * (view[1] - view[0]));
  function rowAt(py) { const k = Math.floor((py - TOP + box.scrollTop) / rowHeight()); return py > TOP ? rows[k] : undefined; }
  function barAt(px, py) {
    const row = rowAt(py);
    if (!row || px < gutter) return null;
    const tall = rowHeight(), inside = py - TOP + box.scrollTop - rows.indexOf(row) * tall, lane = Math.min(row.count - 1, Math.floor((inside / tall) * row.count));
    const us = usAt(px), slack = ((view[1] - view[0]) / (width - gutter)) * 2;
    let best = -1;
    row.bars.forEach((i, k) => { if (shown(i) && row.lanes[k] === lane && source.begin(i) <= us + slack && source.end(i) >= us - slack) best = k; });
    return best < 0 ? { row, bar: -1 } : { row, bar: best };
  }
  function tellDetail(found) {
    const detail = byId("gantt-detail");
    if (!found) { detail.textContent = "Point at a bar, or choose one by keyboard, for details."; return; }
    const { row, bar } = found, busy = row.busy / source.us / (row.count || 1);
    detail.textContent = bar < 0 ? `${row.name}: ${plural(row.bars.length, source.what)}.` : `${row.name}. ${source.text(row.bars[bar])}.`;
    detail.dataset.busy = percent(busy);
  }
  function choose(found) {
    chosen = found;
    tellDetail(found);
    if (found) {
      const k = rows.indexOf(found.row), tall = rowHeight(), y = k * tall;
      if (y < box.scrollTop) box.scrollTop = y;
      else if (y + tall > box.scrollTop + height - TOP) box.scrollTop = y + tall - height + TOP;
      if (found.bar >= 0) {
        const i = found.row.bars[found.bar], span = view[1] - view[0];
        if (source.begin(i) < view[0] || source.begin(i) > view[1]) show(source.begin(i) - span / 4, source.begin(i) + (3 * span) / 4);
      }
      const text = byId("gantt-detail").textContent;
      byId("gantt-said").textContent = text;
    }
    redraw();
    refreshTable();
  }
  function rowStep(by) {
    if (!rows.length) return;
    const k = chosen ? rows.indexOf(chosen.row) + by : by > 0 ? 0 : rows.length - 1;
    choose({ row: rows[Math.max(0, Math.min(rows.length - 1, k))], bar: -1 });
  }
  function barStep(by) {
    if (!chosen) rowStep(1);
    if (!chosen) return;
    const bars = chosen.row.bars;
    let k = chosen.bar < 0 ? (by > 0 ? 0 : bars.length - 1) : chosen.bar + by;
    while (k >= 0 && k < bars.length && !shown(bars[k])) k += by;
    if (k >= 0 && k < bars.length) choose({ row: chosen.row, bar: k });
  }
  const refreshTable = whenOpen("gantt-table", (where) => {
    const taken = chosen ? [chosen.row] : rows, found = [];
    for (const row of taken) { for (const i of row.bars) if (shown(i) && found.length < 500) found.push([row.name, source.text(i)]); if (found.length >= 500) break; }
    table(where, ["Row", "What and when"], found, `${chosen ? chosen.row.name : "All rows"}${found.length >= 500 ? ", the first 500 bars" : ""}`, [0, 1]);
  });
  function legend() {
    const where = d3.select("#gantt-legend");
    where.selectAll("*").remove();
    if (byId("colour").value === "step") {
      const s = where.append("span");
      s.append("b").style("font-weight", "400").text(source.wait ? "step of its thread block: 0" : "step 1");
      s.append("i").attr("class", "gradient").style("background", `linear-gradient(to right, ${d3.range(0, 1.01, 0.1).map((t) => stepColour(t * 10, 11)).join(",")})`);
      s.append("b").style("font-weight", "400").text(source.wait ? String(source.steps - 1) : String(source.steps));
    } else where.append("span").text("Colour: the GPU that the chunk belongs to.");
    if (source.wait) { const s = where.append("span"); s.append("i").style("background", "var(--quiet)").style("opacity", "0.28"); s.append("b").style("font-weight", "400").text("waits for a message, a slot or a step"); }
    else where.append("span").text("Number: the chunk. Bars above each other share the resource.");
    where.append("span").text("Ctrl + wheel zooms, dragging moves.");
  }

  const on = (id, event, f) => byId(id).addEventListener(event, f);
  on("rows", "change", () => { source = sources[+byId("rows").value]; chosen = null; known = new Map(); box.scrollTop = 0; legend(); tellDetail(null); show(0, source.us); });
  on("order", "change", select); on("find", "input", select);
  on("compact", "change", () => { box.scrollTop = 0; size(); });
  on("colour", "change", () => { legend(); redraw(); });
  on("zoom-in", "click", () => zoom(1.6)); on("zoom-out", "click", () => zoom(1 / 1.6)); on("zoom-fit", "click", () => show(0, source.us));
  box.addEventListener("scroll", redraw, { passive: true });
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = { ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), ArrowUp: () => rowStep(-1), ArrowDown: () => rowStep(1), PageUp: () => rowStep(-10), PageDown: () => rowStep(10),
      "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), 0: () => show(0, source.us), Home: () => show(0, view[1] - view[0]), End: () => show(source.us, source.us + view[1] - view[0]),
      ",": () => barStep(-1), ".": () => barStep(1), Escape: () => choose(null) };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  const local = (event) => { const r = canvas.getBoundingClientRect(); return [event.clientX - r.left, event.clientY - r.top]; };
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, view, far: false }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (drag) {
      const by = ((event.clientX - drag.x) / (width - gutter)) * (drag.view[1] - drag.view[0]);
      if (Math.abs(event.clientX - drag.x) > 3) drag.far = true;
      if (drag.far) { hideTip(); show(drag.view[0] - by, drag.view[1] - by); }
      return;
    }
    hover = barAt(...local(event));
    if (!hover) { hideTip(); return; }
    showTip(event, hover.bar < 0 ? hover.row.name : `${hover.row.name}\n${source.text(hover.row.bars[hover.bar])}`);
    if (hover.bar >= 0) tellDetail(hover);
  });
  canvas.addEventListener("pointerup", (event) => { if (drag && !drag.far) choose(barAt(...local(event))); drag = null; });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointerleave", () => { hideTip(); if (!drag) tellDetail(chosen); });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 300), usAt(local(event)[0]));
  }, { passive: false });
  listen("chunk", select);
  listen("theme", () => { known = new Map(); legend(); redraw(); });
  new ResizeObserver(() => requestAnimationFrame(size)).observe(box);
  legend();
  show(0, source.us);
}
