"use strict";
// What all parts of the page share: the data, the chosen chunk, colours, words, tables.
const Data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

function column(c) {
  const raw = atob(c.v), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new ({ f4: Float32Array, i4: Int32Array, u2: Uint16Array })[c.t](bytes.buffer);
}
function decoded(value) {
  for (const key of Object.keys(value)) {
    const inner = value[key];
    if (inner && typeof inner === "object" && !Array.isArray(inner)) {
      if (typeof inner.v === "string" && typeof inner.t === "string") value[key] = column(inner);
      else decoded(inner);
    }
  }
  return value;
}
for (const part of [Data.topology, Data.run, Data.program]) if (part) decoded(part);

// Where there is a program the times are its own: the schedule is drawn for the routes of its chunks.
const programFirst = Boolean(Data.program);

const State = { chunk: -1, listeners: { chunk: [], theme: [] } };
const listen = (what, f) => State.listeners[what].push(f);
const tell = (what) => State.listeners[what].forEach((f) => f());

const stillness = matchMedia("(prefers-reduced-motion: reduce)");
const schemes = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme || (schemes.matches ? "dark" : "light")) === "dark";
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// -- colours, legible on either page
const gpuName = (rank) => Data.topology.vertices[rank][0];
function stepColour(step, steps) {
  const at = steps > 1 ? step / (steps - 1) : 0.3;
  return isDark() ? d3.interpolateViridis(0.3 + 0.7 * at) : d3.interpolateViridis(0.82 * at);
}
function rankColour(rank) {
  const turn = (360 * rank) / Data.topology.ranks;
  return d3.hcl(turn + 20, 55 + 18 * (rank % 2), (isDark() ? 72 : 46) + 6 * (rank % 3)).formatHex();
}
const shareColour = (s) => (isDark() ? d3.interpolateInferno(0.4 + 0.55 * s) : d3.interpolateYlOrRd(0.3 + 0.7 * s));
const originOf = (chunk) => (Data.collective && chunk >= 0 && chunk < Data.collective.blocks.length ? Data.collective.blocks[chunk][0] : 0);
const chunkColour = (chunk) => rankColour(originOf(chunk));

// -- words
function chunkName(chunk) {
  if (!Data.collective || chunk < 0) return "chunk";
  const block = Data.collective.blocks[chunk], part = Data.collective.parts[chunk];
  const word = { reducescatter: "for", scatter: "for", allreduce: "summed by" }[Data.collective.name] || "of";
  const whose = block.length > 1 ? `from ${block[0]} to ${block[1]}` : `${word} GPU ${block[0]}`;
  return `chunk ${chunk} (${whose}${Data.collective.perRank > 1 ? `, part ${part}` : ""})`;
}
const plural = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
const micros = (us) => (us >= 10000 ? `${d3.format(",.1f")(us / 1000)} ms` : `${d3.format(us >= 100 ? ",.1f" : ".4~g")(us)} µs`);
const percent = d3.format(".1%");
function bytesText(b) {
  for (const [unit, name] of [[1e9, "GB"], [1e6, "MB"], [1e3, "KB"]]) if (b >= unit) return `${+(b / unit).toPrecision(4)} ${name}`;
  return `${b} B`;
}

// -- tables, always by text and never by markup
function table(box, heads, rows, caption, textColumns = [0]) {
  const found = d3.create("table");
  if (caption) found.append("caption").text(caption);
  found.append("thead").append("tr").selectAll("th").data(heads).join("th").attr("scope", "col")
    .attr("class", (_, i) => (textColumns.includes(i) ? "text" : null)).text((d) => d);
  found.append("tbody").selectAll("tr").data(rows).join("tr").selectAll("td").data((r) => r).join("td")
    .attr("class", (_, i) => (textColumns.includes(i) ? "text" : null)).text((d) => d);
  box.replaceChildren(found.node());
  return found;
}
function whenOpen(details, fill) {
  const element = byId(details), box = element.querySelector(".scroll");
  const refresh = () => { if (element.open) fill(box); };
  element.addEventListener("toggle", refresh);
  return refresh;
}

// -- the tip beside the pointer
const tip = byId("tip");
function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18}px`;
}
const hideTip = () => { tip.hidden = true; };
