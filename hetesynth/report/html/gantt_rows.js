"use strict";
// What the time chart can show: rows of bars. A bar has a begin and an end, a step for its colour and a text.
function rowSources() {
  const T = Data.topology, R = Data.run, P = Data.program, found = [];

  function grouped(count, rowOf, begin, end) {  // bars by row, in order of begin, with the lanes of a row
    const rows = new Map();
    for (let i = 0; i < count; i++) rowOf(i, (row) => { if (!rows.has(row)) rows.set(row, []); rows.get(row).push(i); });
    const made = new Map();
    for (const [row, bars] of rows) {
      bars.sort((a, b) => begin(a) - begin(b) || end(a) - end(b) || a - b);
      const free = [], lanes = new Uint16Array(bars.length);
      let busy = 0;
      bars.forEach((bar, k) => {
        let lane = free.findIndex((until) => until <= begin(bar) + 1e-7 * Math.abs(begin(bar)));
        if (lane < 0) lane = free.length;
        lanes[k] = lane;
        free[lane] = end(bar);
        busy += end(bar) - begin(bar);
      });
      made.set(row, { bars, lanes, count: Math.max(1, free.length), busy });
    }
    return made;
  }
  function source(name, what, list, names, parts) {
    const rows = [...list.entries()].map(([row, r]) => ({ key: row, name: names(row), ...r }));
    rows.sort((a, b) => a.key - b.key);
    return { name, what, rows, ...parts };
  }

  if (R) {
    const ends = (i) => `GPU ${T.links.src[R.link[i]]} to ${T.links.dst[R.link[i]]}`;
    const parts = {
      us: R.us, steps: R.steps, begin: (i) => R.begin[i], end: (i) => R.sent[i], wait: null, step: (i) => R.start[i],
      chunk: (i) => R.chunk[i], moves: (i, chunk) => R.chunk[i] === chunk,
      text: (i) => `${chunkName(R.chunk[i])}, ${ends(i)}, step ${R.start[i] + 1}: ${micros(R.begin[i])} to ${micros(R.sent[i])}`
        + (R.end[i] > R.sent[i] * (1 + 1e-6) ? `, added by ${micros(R.end[i])}` : ""),
    };
    const onResources = grouped(R.start.length, (i, put) => { for (let k = R.usesFirst[i]; k < R.usesFirst[i + 1]; k++) put(R.uses[k]); }, parts.begin, parts.end);
    found.push(source("wires and groups (schedule)", "transfer", onResources, (row) => R.resources.names[row], parts));
    const onLinks = grouped(R.start.length, (i, put) => put(R.link[i]), parts.begin, parts.end);
    found.push(source("links, GPU to GPU (schedule)", "transfer", onLinks, (row) => `${T.links.src[row]}->${T.links.dst[row]} ${T.linkKinds[T.links.kind[row]]}`, parts));
  }
  if (P) {
    const a = P.block.length, longest = d3.max(P.step) + 1, words = P.words;
    const chunksOf = (k) => Array.from(P.chunks.subarray(P.chunksFirst[k], P.chunksFirst[k + 1]));
    const parts = {
      us: P.shown < P.loops ? d3.max(P.end) : P.us, steps: longest, begin: (i) => P.since[i], end: (i) => P.end[i], wait: (i) => P.ready[i],
      step: (i) => P.step[i % a], chunk: (i) => { const k = i % a; return P.chunksFirst[k] < P.chunksFirst[k + 1] ? P.chunks[P.chunksFirst[k]] : -1; },
      moves: (i, chunk) => { if (!P.chunks.length) return true; const k = i % a; for (let j = P.chunksFirst[k]; j < P.chunksFirst[k + 1]; j++) if (P.chunks[j] === chunk) return true; return false; },
      text: (i) => {
        const k = i % a, peers = words[P.peers[k]], places = [words[P.src[k]], words[P.dst[k]]].filter(Boolean).join(" to ");
        const moved = chunksOf(k), what = moved.length === 1 ? `, ${chunkName(moved[0])}` : moved.length ? `, chunks ${moved.slice(0, 6).join(", ")}${moved.length > 6 ? " and others" : ""}` : "";
        return `Step ${P.step[k]}: ${words[P.op[k]]}${peers ? ` ${peers}` : ""}${what}${places ? `, ${places}` : ""}`
          + `${P.shown > 1 ? `, loop ${1 + Math.floor(i / a)}` : ""}: waits from ${micros(P.since[i])}, runs ${micros(P.ready[i])} to ${micros(P.end[i])}`;
      },
    };
    const onBlocks = grouped(P.end.length, (i, put) => put(P.block[i % a]), parts.begin, parts.end);
    const name = (row) => `GPU ${P.blocks[row][0]} block ${P.blocks[row][1]} ${P.blocks[row][2]}`;
    found.push(source("thread blocks (program)", "instruction", onBlocks, name, parts));
  }
  return programFirst ? found.reverse() : found;
}
