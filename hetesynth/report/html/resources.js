"use strict";
// How busy each resource was: the bottleneck in words, by kind, and every one in a table with bars.
function resources() {
  const sources = [];
  if (Data.run) sources.push(["the schedule", Data.run]);
  if (Data.program) sources.push(["the program", Data.program]);
  if (programFirst) sources.reverse();
  const T = Data.topology, FEW = 15, limited = T.wires.filter((w) => w[3] >= 0);
  const copies = (r) => r >= limited.length + T.groups.length; // wires, then groups, then thread blocks
  const kindOf = (r) => (copies(r) ? "thread block" : r < limited.length ? T.kinds[limited[r][2]] : `group: ${T.groups[r - limited.length][1]}`);
  let all = false;
  d3.select("#use-of").selectAll("option").data(sources).join("option").attr("value", (_, i) => i).text((s) => s[0]);

  function meter(cell, share, most) {
    cell.append("span").attr("class", "meter").attr("aria-hidden", "true").append("span").attr("class", most ? "most" : null).style("width", `${100 * share}%`);
    cell.append("span").text(percent(share));
  }
  function draw() {
    const [name, what] = sources[+byId("use-of").value || 0], u = what.resources;
    const order = d3.range(u.names.length).sort((a, b) => u.share[b] - u.share[a] || a - b), best = order[0];
    if (best === undefined || u.share[best] === 0) { byId("use-said").textContent = "Nothing is sent."; return; }
    const equal = order.filter((r) => u.share[r] > u.share[best] * 0.999).length - 1;
    const loops = Data.program === what && what.shown < what.loops ? " Counted over the loops that were simulated." : "";
    byId("use-said").textContent = `Bottleneck of ${name}: ${u.names[best]} (${kindOf(best)}, ${u.rate[best]} GB/s) carries ${bytesText(u.bytes[best])}, ${percent(u.share[best])} of what it could in this time`
      + `${equal > 0 ? `; ${plural(equal, "other")} as much` : ""}. ${u.share[best] > 0.95 ? `Only ${copies(best) ? "more channels or " : ""}less traffic there would make it faster.` : "What is missing to 100 % is waiting: for data, for latency, or for others."}${loops}`;
    const kinds = d3.rollups(order, (rs) => [rs.length, d3.max(rs, (r) => u.share[r]), d3.mean(rs, (r) => u.share[r]), d3.sum(rs, (r) => u.bytes[r])], kindOf);
    const byKind = table(byId("use-kinds"), ["Kind", "Resources", "Most", "Mean", "Carried"], kinds.map(([k, v]) => [k, v[0], v[1], percent(v[2]), bytesText(v[3])]), "By kind");
    const top = all ? order : order.slice(0, FEW);
    const every = table(byId("use-table"), ["Resource", "Utilization", "Kind", "Rate", "Carried", "In use for"], top.map((r) => [u.names[r], u.share[r], kindOf(r), `${u.rate[r]} GB/s`, bytesText(u.bytes[r]), micros(u.busy[r])]),
      all || order.length <= FEW ? "All resources, busiest first" : `The ${FEW} busiest of ${order.length}`, [0, 1, 2]);
    for (const [found, place] of [[byKind, 2], [every, 1]]) found.selectAll("tbody tr").each(function (row) { meter(d3.select(this.children[place]).text(""), row[place], row[place] > u.share[best] * 0.999); });
    byId("use-all").hidden = order.length <= FEW;
    byId("use-all").setAttribute("aria-pressed", String(all));
    byId("use-all").textContent = all ? `Show the ${FEW} busiest` : `Show all ${order.length}`;
  }
  byId("use-of").addEventListener("change", draw);
  byId("use-all").addEventListener("click", () => { all = !all; draw(); });
  draw();
}
