"use strict";
// Puts the parts together: theme, the filter by chunk, and a message where something fails.
addEventListener("error", (event) => {
  byId("failure").hidden = false;
  byId("failure").textContent = `A drawing failed: ${event.message}. What is proved is said below.`;
  document.documentElement.dataset.failed = event.message;
});
(function theme() {
  const choice = byId("theme");
  try { choice.value = localStorage.getItem("hetesynth-theme") || ""; } catch { choice.value = ""; }
  const apply = () => {
    if (choice.value) document.documentElement.dataset.theme = choice.value;
    else delete document.documentElement.dataset.theme;
  };
  apply();
  choice.addEventListener("change", () => {
    apply();
    try { localStorage.setItem("hetesynth-theme", choice.value); } catch { /* a page without storage keeps no choice */ }
    tell("theme");
  });
  schemes.addEventListener("change", () => tell("theme"));
})();
(function chunks() {
  const choice = byId("chunk"), count = Data.collective ? Data.collective.blocks.length : 0;
  d3.select(choice).selectAll("option.one").data(d3.range(count)).join("option").attr("class", "one").attr("value", (d) => d).text(chunkName);
  const apply = () => {
    State.chunk = +choice.value;
    byId("chunk-said").textContent = State.chunk < 0 ? "Filters every drawing below." : `Only ${chunkName(State.chunk)} is drawn.`;
    byId("chunk-clear").disabled = State.chunk < 0;
    tell("chunk");
  };
  choice.addEventListener("change", apply);
  byId("chunk-clear").addEventListener("click", () => { choice.value = "-1"; apply(); choice.focus(); });
  choice.value = "-1";
})();
scene();
gantt();
resources();
curves();
document.documentElement.dataset.ready = "true";
