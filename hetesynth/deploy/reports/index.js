"use strict";
(() => {
  const input = document.getElementById("filter");
  const told = document.getElementById("shown");
  const rows = Array.from(document.querySelectorAll("tr[data-key]"));
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      row.hidden = !words.every((word) => row.dataset.key.includes(word));
      count += row.hidden ? 0 : 1;
    }
    for (const group of document.querySelectorAll(".group")) {
      group.hidden = !group.querySelector("tr[data-key]:not([hidden])");
    }
    told.textContent = words.length ? `${count} of ${rows.length} cells` : "";
  };
  input.addEventListener("input", show);
  show();
})();
