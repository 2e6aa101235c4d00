(() => {
  "use strict";
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const say = (button, word) => {
    button.textContent = word;
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  const select = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return document.execCommand("copy");
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    const code = button.parentElement.querySelector("code");
    const done = () => say(button, "Copied");
    const other = () => say(button, select(code) ? "Copied" : "Selected");
    if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(done, other);
    else other();
  });
  const fold = (open) => all(".tree details").forEach((details) => { details.open = open; });
  const on = (id, event, act) => document.getElementById(id)?.addEventListener(event, act);
  on("open", "click", () => fold(true));
  on("close", "click", () => fold(false));
  const parts = (leaf) => {
    const path = [leaf.querySelector(".name").textContent];
    for (let at = leaf.parentElement; at; at = at.parentElement) {
      if (at.matches("li.dir")) path.unshift(at.querySelector("summary .folder").textContent);
    }
    return path.join("").toLowerCase();
  };
  let paths = null;
  on("find", "input", (event) => {
    const wanted = event.target.value.toLowerCase();
    paths = paths || all(".tree li.leaf").map((leaf) => [leaf, parts(leaf)]);
    paths.forEach(([leaf, path]) => { leaf.hidden = !path.includes(wanted); });
    all(".tree li.dir").forEach((dir) => {
      const some = dir.querySelector("li.leaf:not([hidden])");
      dir.hidden = !some;
      if (wanted && some) dir.querySelector("details").open = true;
    });
  });
  let shut = [];
  addEventListener("beforeprint", () => {
    shut = all("details:not([open])");
    shut.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => { shut.forEach((details) => { details.open = false; }); });
})();
