"use strict";
// Predicted time and bandwidth against size: this, baselines, bound; told apart by colour, dashes and marks.
function curves() {
  const sizes = Data.sizes, list = Data.curves, one = sizes.length < 2;
  const looks = (c, k) => ({ schedule: ["var(--full)", null, 2.8], program: ["var(--strong)", "7 3", 2.6], bound: ["var(--ink)", "2 4", 1.8] }[c.role]
    || [isDark() ? d3.schemeTableau10[(k + 2) % 10] : d3.color(d3.schemeTableau10[(k + 2) % 10]).darker(0.7), ["9 3 2 3", "4 2", "12 4", "3 3", "6 2 1 2"][k % 5], 1.6]);
  const symbols = [d3.symbolCircle, d3.symbolSquare, d3.symbolTriangle, d3.symbolDiamond, d3.symbolCross, d3.symbolStar, d3.symbolWye];
  let at = Math.max(0, sizes.indexOf(Data.size));
  const charts = [
    { id: "chart-time", title: "Time, µs", value: (c, i) => c.us[i], text: micros },
    { id: "chart-band", title: "Bandwidth, GB/s", value: (c, i) => (c.us[i] > 0 ? sizes[i] / c.us[i] / 1000 : NaN), text: (v) => `${+v.toPrecision(4)} GB/s` },
  ];

  function draw(chart) {
    const box = d3.select(`#${chart.id}`), width = Math.max(280, box.node().clientWidth), height = 368;
    const left = 58, right = 14, top = 30, bottom = 40;
    const values = list.flatMap((c) => sizes.map((_, i) => chart.value(c, i))).filter((v) => v > 0);
    const x = (one ? d3.scaleLog([sizes[0] / 2, sizes[0] * 2], [left, width - right]) : d3.scaleLog(d3.extent(sizes), [left, width - right]));
    const y = d3.scaleLog([d3.min(values) * 0.8, d3.max(values) * 1.25], [height - bottom, top]);
    box.selectAll("svg").remove();
    const svg = box.append("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("role", "img").attr("aria-label", `${chart.title} against size, ${plural(list.length, "curve")}; the table below has all values`);
    const decades = d3.range(Math.ceil(Math.log10(y.domain()[0])), Math.floor(Math.log10(y.domain()[1])) + 1).map((e) => 10 ** e);
    const few = decades.length < 2 ? y.ticks(4) : decades, number = (v) => (v >= 1e4 || v < 1e-3 ? d3.format("~s")(v) : d3.format(",~")(+v.toPrecision(3)));
    const all = sizes.length > 1 ? d3.range(3, 13).map((e) => 10 ** e).filter((v) => v >= x.domain()[0] && v <= x.domain()[1]) : sizes;
    const ticks = all.length > 1 ? all.filter((_, i) => width > 420 || i % 2 === 0) : sizes;
    svg.append("g").attr("class", "grid").attr("transform", `translate(${left} 0)`).call(d3.axisLeft(y).tickValues(few).tickSize(-(width - left - right)).tickFormat("")).call((s) => s.select(".domain").remove());
    svg.append("g").attr("transform", `translate(${left} 0)`).call(d3.axisLeft(y).tickValues(few).tickFormat(number));
    svg.append("g").attr("transform", `translate(0 ${height - bottom})`).call(d3.axisBottom(x).tickValues(ticks).tickFormat(bytesText));
    svg.append("text").attr("x", 8).attr("y", 17).style("font-weight", 600).text(chart.title);
    svg.append("text").attr("x", width - right).attr("y", height - 6).attr("text-anchor", "end").text("Size of the buffer");
    const line = d3.line((_, i) => x(sizes[i])).y((v) => y(v)).defined((v) => v > 0);
    list.forEach((c, k) => {
      const [colour, dash, thick] = looks(c, k), ys = sizes.map((_, i) => chart.value(c, i));
      svg.append("path").attr("class", "curve").attr("d", line(ys)).style("stroke", colour).style("stroke-width", thick).style("stroke-dasharray", dash);
      const mark = d3.symbol(symbols[k % symbols.length], c.role === "schedule" ? 46 : 30)();
      svg.append("g").selectAll("path").data(ys.map((v, i) => [v, i]).filter((d) => d[0] > 0)).join("path").attr("d", mark).attr("transform", (d) => `translate(${x(sizes[d[1]])} ${y(d[0])})`).style("fill", colour);
    });
    svg.append("line").attr("class", "cursor").attr("y1", top).attr("y2", height - bottom).attr("x1", x(sizes[at])).attr("x2", x(sizes[at]));
    svg.on("pointermove", (event) => {
      const px = d3.pointer(event)[0], nearest = d3.minIndex(sizes, (s) => Math.abs(x(s) - px));
      showTip(event, readout(chart, nearest));
      if (nearest !== at) { at = nearest; mark(); }
    }).on("pointerleave", hideTip);
    chart.x = x;
  }
  const readout = (chart, i) => [bytesText(sizes[i]), ...list.map((c) => [c.name, chart.value(c, i)]).sort((a, b) => (chart.id === "chart-time" ? a[1] - b[1] : b[1] - a[1])).map(([name, v]) => `${name}: ${chart.text(v)}`)].join("\n");
  function mark() {
    for (const chart of charts) d3.select(`#${chart.id} .cursor`).attr("x1", chart.x(sizes[at])).attr("x2", chart.x(sizes[at]));
    byId("curve-said").textContent = `${bytesText(sizes[at])}: ${list.map((c) => `${c.name} ${micros(c.us[at])} (${charts[1].text(charts[1].value(c, at))})`).join("; ")}.`;
    d3.select("#curve-table").selectAll("tbody tr").classed("here", (_, i) => i === at);
  }
  function legend() {
    const items = d3.select("#curve-legend").selectAll("span").data(list).join("span");
    items.selectAll("*").remove();
    items.each(function (c, k) {
      const [colour, dash, thick] = looks(c, k), svg = d3.select(this).append("svg").attr("width", 44).attr("height", 14).attr("aria-hidden", "true");
      svg.append("line").attr("x1", 1).attr("x2", 43).attr("y1", 7).attr("y2", 7).style("stroke", colour).style("stroke-width", thick).style("stroke-dasharray", dash);
      svg.append("path").attr("d", d3.symbol(symbols[k % symbols.length], 34)()).attr("transform", "translate(22 7)").style("fill", colour);
      d3.select(this).append("b").style("font-weight", c.role === "baseline" ? 400 : 650).text(c.name);
    });
  }
  const refreshTable = whenOpen("curve-table", (where) => {
    table(where, ["Size", ...list.map((c) => c.name)], sizes.map((s, i) => [bytesText(s), ...list.map((c) => `${micros(c.us[i])}, ${charts[1].text(charts[1].value(c, i))}`)]), "Time, and bandwidth = size / time");
    mark();
  });
  const everything = () => { charts.forEach(draw); legend(); mark(); };
  for (const chart of charts) byId(chart.id).addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: sizes.length - 1 };
    if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    at = Math.max(0, Math.min(sizes.length - 1, moves[event.key]));
    mark();
  });
  listen("theme", everything);
  let before = 0;
  new ResizeObserver(() => requestAnimationFrame(() => { const now = byId("chart-time").clientWidth; if (now !== before) { before = now; everything(); } })).observe(byId("chart-time"));
  before = byId("chart-time").clientWidth;
  everything();
  refreshTable();
}
