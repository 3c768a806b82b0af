"use strict";
// The cluster and what crosses it in each step. Wires are drawn once; a canvas above them has what moves.
function scene() {
  const T = Data.topology, R = Data.run, wires = T.wires, links = T.links;
  const box = byId("canvasbox"), stage = byId("stage");
  const svg = d3.create("svg").attr("viewBox", `0 0 ${T.width} ${T.height}`).attr("role", "img")
    .attr("aria-label", `${T.name}: ${plural(T.ranks, "GPU")}, ${plural(T.servers.length, "server")}`);
  const canvas = document.createElement("canvas");  // what moves: above wires and bars, below GPUs with their numbers
  const above = d3.create("svg").attr("viewBox", `0 0 ${T.width} ${T.height}`).attr("class", "above").attr("aria-hidden", "true");
  box.append(svg.node(), canvas, above.node());
  let zoom = 1, step = 0, progress = 0.6, playing = null, paint = "step";

  // -- what is drawn once
  const frames = svg.append("g").selectAll("g").data(T.servers).join("g");
  frames.append("rect").attr("class", "frame").attr("rx", 8).attr("x", (d) => d[1]).attr("y", (d) => d[2])
    .attr("width", (d) => d[3]).attr("height", (d) => d[4]);
  frames.selectAll("text").data((d) => d[6].map((line, k) => [d[1] + 10, d[5] + 13 * k, line, k])).join("text")
    .attr("class", (d) => (d[3] ? "caption" : "caption first")).attr("x", (d) => d[0]).attr("y", (d) => d[1]).text((d) => d[2]);
  const path = (w) => `M${w[7]} ${w[8]}Q${w[9]} ${w[10]} ${w[11]} ${w[12]}`;
  const lines = svg.append("g").selectAll("path").data(wires).join("path").attr("class", "wire").attr("d", path);
  svg.append("g").selectAll("path").data(wires).join("path").attr("class", "hit").attr("d", path)
    .on("pointermove", (event, w) => { const text = wireText(wires.indexOf(w)); showTip(event, text); byId("hint").textContent = text; })
    .on("pointerleave", hideTip);
  const bar = (v) => ["switch", "fabric", "router"].includes(v[1]);
  const layers = [[svg, T.vertices.filter(bar)], [above, T.vertices.filter((v) => !bar(v))]];
  const parts = d3.selectAll(layers.flatMap(([layer, members]) => layer.append("g").selectAll("g").data(members).join("g").nodes()))
    .on("pointermove", (event, v) => { const text = vertexText(T.vertices.indexOf(v)); showTip(event, text); byId("hint").textContent = text; })
    .on("pointerleave", hideTip);
  parts.append("rect").attr("class", (v) => (v[1] === "gpu" ? "gpu" : `part ${v[1]}`)).attr("rx", 3)
    .attr("x", (v) => v[5]).attr("y", (v) => v[6]).attr("width", (v) => v[7]).attr("height", (v) => v[8]);
  const gpus = parts.filter((v) => v[1] === "gpu");
  const levels = gpus.append("rect").attr("class", "level").attr("x", (v) => v[5] + 1).attr("width", (v) => v[7] - 2);
  parts.append("text").attr("class", (v) => (v[1] === "gpu" ? "name on" : "name"))
    .attr("x", (v) => v[5] + v[7] / 2).attr("y", (v) => v[6] + v[8] / 2 + (v[1] === "gpu" ? 4 : 3.4)).text((v) => v[4]);

  // -- what the schedule does, by step
  const steps = R ? R.steps : 0, count = R ? R.start.length : 0;
  const ofStep = Array.from({ length: steps }, () => []);
  for (let i = 0; i < count; i++) ofStep[R.start[i]].push(i);
  const wanted = new Float64Array(T.ranks);
  for (let i = 0; i < count; i++) wanted[links.dst[R.link[i]]]++;
  const routes = new Map();
  function route(link) {  // points along the wires of a link, and the length up to each
    if (routes.has(link)) return routes.get(link);
    const points = [];
    for (let k = links.first[link]; k < links.first[link + 1]; k++) {
      const w = wires[links.path[k]], straight = Math.abs(w[9] - (w[7] + w[11]) / 2) + Math.abs(w[10] - (w[8] + w[12]) / 2) < 0.5;
      for (let j = 0; j <= (straight ? 1 : 8); j++) {
        const t = straight ? j : j / 8, u = 1 - t;
        points.push([u * u * w[7] + 2 * u * t * w[9] + t * t * w[11], u * u * w[8] + 2 * u * t * w[10] + t * t * w[12]]);
      }
    }
    const far = [0];
    for (let j = 1; j < points.length; j++) far.push(far[j - 1] + Math.hypot(points[j][0] - points[j - 1][0], points[j][1] - points[j - 1][1]));
    routes.set(link, { points, far });
    return routes.get(link);
  }
  function along(found, share) {
    const { points, far } = found, at = share * far[far.length - 1];
    let j = d3.bisectRight(far, at, 1, far.length - 1);
    const span = far[j] - far[j - 1] || 1, t = (at - far[j - 1]) / span, a = points[j - 1], b = points[j];
    return [a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t, Math.atan2(b[1] - a[1], b[0] - a[0])];
  }
  const shown = (i) => State.chunk < 0 || R.chunk[i] === State.chunk;
  const now = () => (step > 0 ? ofStep[step - 1].filter(shown) : []);
  function wireLoads(transfers) {
    const loads = new Map();
    for (const i of transfers) for (let k = links.first[R.link[i]]; k < links.first[R.link[i] + 1]; k++) {
      const w = links.path[k];
      loads.set(w, (loads.get(w) || 0) + 1);
    }
    return loads;
  }
  let loads = new Map();

  // -- words
  const rateText = (w) => (w[4] === null ? "never limits" : `${+w[4].toPrecision(5)} GB/s`);
  const capacity = (w) => (R && R.capacities ? R.capacities[w] : null);
  const wireName = (w) => `${T.vertices[wires[w][0]][0]} → ${T.vertices[wires[w][1]][0]}`;
  function wireText(w) {
    const wire = wires[w], load = loads.get(w) || 0, room = capacity(w);
    const used = R && wire[3] >= 0 ? `\nover the run ${percent(R.resources.share[wire[3]])} used` : "";
    const step_ = step > 0 ? `\nstep ${step}: ${plural(load, "chunk")}${room === null || room === undefined ? "" : ` of ${room}`}` : "";
    return `${wireName(w)}\n${T.kinds[wire[2]]}, ${rateText(wire)}${step_}${used}`;
  }
  function vertexText(v) {
    const vertex = T.vertices[v];
    if (vertex[1] !== "gpu") return `${vertex[0]}\n${vertex[1]}${vertex[2] ? ` in ${vertex[2]}` : ""}`;
    const got = arrived(step), holds = State.chunk >= 0 ? `\n${holders(step).has(v) ? "has" : "does not have"} ${chunkName(State.chunk)}` : "";
    return `GPU ${v}: ${vertex[0]} ${vertex[3]}${R ? `\nreceived ${got[v]} of ${wanted[v]} by step ${step}` : ""}${holds}`;
  }
  let arrivedAt = null;
  function arrived(until) {
    if (!arrivedAt) {
      arrivedAt = [new Float64Array(T.ranks)];
      for (let s = 0; s < steps; s++) {
        const next = Float64Array.from(arrivedAt[s]);
        for (const i of ofStep[s]) next[links.dst[R.link[i]]]++;
        arrivedAt.push(next);
      }
    }
    return arrivedAt[until] || new Float64Array(T.ranks);
  }
  function holders(until) {
    const found = new Set(State.chunk >= 0 && Data.collective ? Data.collective.pre[State.chunk] : []);
    for (let s = 0; s < until; s++) for (const i of ofStep[s]) if (R.chunk[i] === State.chunk) found.add(links.dst[R.link[i]]);
    return found;
  }
  function sentence() {
    if (!R) return "There are no steps to show; the notes at the end say why.";
    const of = State.chunk >= 0 ? ` of ${chunkName(State.chunk)}` : "";
    if (step === 0) return `Start, before step 1 of ${steps}. ${State.chunk >= 0 ? `${chunkName(State.chunk)} is at GPU ${[...holders(0)].slice(0, 8).join(", ")}${holders(0).size > 8 ? " and others" : ""}.` : "Every GPU has its own data."}`;
    const transfers = now();
    let most = -1, share = -1, where = null;
    for (const [w, load] of loads) {
      const room = capacity(w) || 0, part = room ? load / room : load / 1e6;
      if (part > share) { share = part; most = load; where = w; }
    }
    const room = where === null ? null : capacity(where);
    const fullest = where === null ? "" : ` Fullest wire: ${wireName(where)} with ${plural(most, "chunk")}${room ? ` of ${room}` : ""}.`;
    const crossing = transfers.filter((i) => T.vertices[links.src[R.link[i]]][2] !== T.vertices[links.dst[R.link[i]]][2]).length;
    return `Step ${step} of ${steps}: ${plural(transfers.length, "transfer")}${of}${T.servers.length > 1 ? `, ${crossing.toLocaleString("en")} between servers` : ""}.${fullest}`;
  }

  // -- drawing
  function drawWires() {
    if (paint === "use" && R) {
      lines.style("stroke", (w) => (w[3] >= 0 && R.resources.share[w[3]] > 0 ? shareColour(R.resources.share[w[3]]) : null))
        .style("stroke-width", (w) => (w[3] >= 0 ? 1 + 2.5 * R.resources.share[w[3]] : 0.9));
      return;
    }
    lines.style("stroke", (_, k) => {
      if (!loads.has(k)) return null;
      const room = capacity(k);
      return room && loads.get(k) >= room ? "var(--full)" : "var(--busy)";
    }).style("stroke-width", (_, k) => (loads.has(k) ? Math.min(3.6, 1.2 + 0.35 * Math.sqrt(loads.get(k))) : 0.9));
  }
  function drawMoving() {
    const scale = canvas.width / T.width, g = canvas.getContext("2d");
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, canvas.width, canvas.height);
    g.setTransform(scale, 0, 0, scale, 0, 0);
    if (!R || step === 0) return;
    const transfers = now(), size = transfers.length > 600 ? 2.2 : transfers.length > 120 ? 2.9 : 3.8;
    g.lineWidth = 0.7;
    g.strokeStyle = ink("--page");
    for (const i of transfers) {
      const lag = 0.12 * ((i * 0.618) % 1), share = Math.max(0, Math.min(1, progress * 1.12 - lag));
      const [x, y, angle] = along(route(R.link[i]), share);
      g.fillStyle = chunkColour(R.chunk[i]);
      g.beginPath();
      if (playing && !stillness.matches) g.arc(x, y, size, 0, 2 * Math.PI);
      else {
        const dx = Math.cos(angle) * size * 1.3, dy = Math.sin(angle) * size * 1.3;
        g.moveTo(x + dx, y + dy); g.lineTo(x - dx - dy * 0.8, y - dy + dx * 0.8); g.lineTo(x - dx + dy * 0.8, y - dy - dx * 0.8); g.closePath();
      }
      g.fill(); g.stroke();
    }
  }
  function draw() {
    loads = R ? wireLoads(now()) : loads;
    drawWires();
    const got = R ? arrived(step) : null, has = State.chunk >= 0 && R ? holders(step) : null;
    levels.attr("height", (v, k) => (R && wanted[k] ? (v[8] - 2) * (got[k] / wanted[k]) : 0))
      .attr("y", (v, k) => v[6] + 1 + (R && wanted[k] ? (v[8] - 2) * (1 - got[k] / wanted[k]) : v[8] - 2));
    gpus.select("rect.gpu").classed("holds", (_, k) => Boolean(has && has.has(k)));
    drawMoving();
    const slider = byId("step"), text = sentence();
    slider.value = step;
    slider.setAttribute("aria-valuetext", step ? `step ${step} of ${steps}` : "start");
    if (byId("said").textContent !== text) byId("said").textContent = text;
    refreshTable();
  }
  const refreshTable = whenOpen("step-table", (where) => {
    const rows = now().slice(0, 500).map((i) => {
      const link = R.link[i], names = [];
      for (let k = links.first[link]; k < links.first[link + 1]; k++) names.push(T.vertices[wires[links.path[k]][1]][0]);
      return [chunkName(R.chunk[i]), gpuName(links.src[link]), names.join(" → "), R.reduce[i] ? "added" : "copied", micros(R.begin[i]), micros(R.end[i])];
    });
    const left = now().length - rows.length;
    table(where, ["Chunk", "From", "Over, to", "How", "First byte", "End"], rows,
      `Step ${step}${left > 0 ? `, the first 500 of ${now().length}` : ""}`, [0, 1, 2, 3]);
  });
  whenOpen("hardware", (where) => {
    const holder = document.createElement("div"), second = document.createElement("div");
    table(holder, ["Part", "What", "Server", "Model"], T.vertices.map((v) => [v[0], v[1], v[2], v[3]]), "Parts", [0, 1, 2, 3]);
    table(second, ["Wire", "Kind", "Rate", "Lanes", "Latency", "Chunks a step"], wires.slice(0, 2000).map((w, k) =>
      [wireName(k), T.kinds[w[2]], rateText(w), w[5], micros(w[6]), capacity(k) ?? "–"]), "Wires, one direction each", [0, 1]);
    const third = document.createElement("div");
    if (T.groups.length) table(third, ["Group", "Kind", "Rate", "Links"], T.groups.map((g) => [g[0], g[1], `${g[2]} GB/s`, g[3]]), "Links with a common limit", [0, 1]);
    where.replaceChildren(holder, second, third);
  });

  // -- moving on
  function go(to) { step = Math.max(0, Math.min(steps, to)); progress = 0.6; draw(); }
  function stop() {
    if (playing) cancelAnimationFrame(playing.frame), clearTimeout(playing.timer);
    playing = null;
    progress = 0.6;
    byId("play").textContent = "Play";
    byId("play").setAttribute("aria-pressed", "false");
    drawMoving();
  }
  function play() {
    if (playing || !R) return;
    if (step >= steps) step = 0;
    playing = { frame: 0, timer: 0 };
    byId("play").textContent = "Pause";
    byId("play").setAttribute("aria-pressed", "true");
    next();
  }
  function next() {
    if (!playing) return;
    if (step >= steps) { stop(); return; }
    step += 1;
    const length = +byId("speed").value;
    if (stillness.matches) { progress = 0.6; draw(); playing.timer = setTimeout(next, length); return; }
    const started = performance.now();
    progress = 0;
    draw();
    const tick = (time) => {
      if (!playing) return;
      progress = Math.max(0, Math.min(1, (time - started) / length));
      drawMoving();
      playing.frame = progress < 1 ? requestAnimationFrame(tick) : requestAnimationFrame(next);
    };
    playing.frame = requestAnimationFrame(tick);
  }
  const toggle = () => (playing ? stop() : play());
  const stepTo = (to) => { stop(); go(to); };

  function resize() {
    const width = box.clientWidth;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round((width * ratio * T.height) / T.width);
    drawMoving();
  }
  function legend() {
    const where = d3.select("#legend");
    where.selectAll("*").remove();
    const add = (colour, text) => { const s = where.append("span"); s.append("i").style("background", colour); s.append("b").style("font-weight", "400").text(text); };
    if (paint === "use") { const s = where.append("span"); s.append("b").style("font-weight", "400").text("0 %"); s.append("i").attr("class", "gradient").style("background", `linear-gradient(to right, ${d3.range(0, 1.01, 0.1).map(shareColour).join(",")})`); s.append("b").style("font-weight", "400").text("100 % used over the run"); }
    else { add("var(--busy)", "wire in use, wider with more chunks"); if (R && R.capacities) add("var(--full)", "full: as many chunks as a step takes"); }
    add("var(--level)", "fill of a GPU: how much of what it receives is there");
    where.append("span").text("Marks on the way: chunks, coloured by the GPU they belong to.");
  }

  byId("step").max = steps;
  const on = (id, event, f) => byId(id).addEventListener(event, f);
  on("first", "click", () => stepTo(0)); on("last", "click", () => stepTo(steps));
  on("back", "click", () => stepTo(step - 1)); on("on", "click", () => stepTo(step + 1));
  on("play", "click", toggle);
  on("step", "input", () => stepTo(+byId("step").value));
  on("paint", "change", () => { paint = byId("paint").value; legend(); draw(); });
  const size = (factor) => { zoom = Math.max(0.5, Math.min(4, zoom * factor)); box.style.setProperty("--zoom", zoom); resize(); };
  on("larger", "click", () => size(1.3)); on("smaller", "click", () => size(1 / 1.3));
  stage.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: () => stepTo(step + 1), ArrowLeft: () => stepTo(step - 1), Home: () => stepTo(0), End: () => stepTo(steps), " ": toggle };
    if (event.ctrlKey || event.metaKey || event.altKey || !moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  });
  listen("chunk", () => { draw(); });
  listen("theme", () => { legend(); draw(); });
  new ResizeObserver(() => requestAnimationFrame(resize)).observe(stage);
  resize();
  legend();
  go(R && steps ? 1 : 0);
}
