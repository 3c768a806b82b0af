"""The importer of chrome://tracing, run in a headless Chromium: what it makes of a trace.

The viewer is one HTML file that the PyPI package torch-tb-profiler brings along (``pip install --no-deps``). Its
elements need a Chromium of their time; its model and importers do not, so only these scripts are run.
"""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from support.chromium import Browser, Page

STRICT = "'use strict';"
STUBS = (
    "window.global = window; window.Polymer = Object.assign(() => {}, { dom: () => ({}), Base: {} });"
    "document.registerElement = () => () => document.createElement('div'); 0"
)
READ = """((text) => {
  const model = new tr.Model(), options = new tr.importer.ImportOptions();
  options.showImportWarnings = false;
  new tr.importer.Import(model, options).importTraces([text]);
  const at = (slice) => [slice.parentContainer.parent.name, slice.args.step, slice.title, slice.args.loop];
  return {
    warnings: model.importWarnings.map((w) => w.message),
    flows: model.flowEvents.map((f) => [at(f.startSlice), at(f.endSlice)]),
    slices: model.getAllThreads().map((t) => t.sliceGroup.slices.length).reduce((a, b) => a + b, 0),
    threads: model.getAllThreads().map((t) => [t.parent.name, t.name]),
    last: model.bounds.max,
  };
})"""


def viewer() -> Path | None:
    """The file of the viewer, or None."""
    found = find_spec("torch_tb_profiler")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "static" / "trace_viewer_full.html"
    return path if path.is_file() else None


def opened(browser: Browser, path: Path) -> Page:
    """A page in which the viewer's model and importers are defined."""
    page = browser.page("about:blank")
    page.value(STUBS)
    script = "".join(re.findall(r"<script>(.*?)</script>", path.read_text(encoding="utf-8"), re.S))
    _, begin, modules = script.partition(f"{STRICT}const global=this.window||this.global;")
    for module in (begin + modules).split(STRICT):
        page.value(f"try {{ (0, eval)({json.dumps(STRICT + module)}); }} catch (error) {{ error; }} 0")
    return page


def read(page: Page, trace: bytes) -> dict[str, Any]:
    """What the importer makes of ``trace``; times in milliseconds."""
    found: dict[str, Any] = page.value(f"{READ}({json.dumps(trace.decode())})")
    return found
