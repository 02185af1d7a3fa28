// Several sessions of the list at once.
import { ask } from "./end.js";
import { onRefresh } from "./live.js";

const boxes = () => [...document.querySelectorAll(".bk-list tbody .sel input")];
const chosen = () => boxes().filter((box) => box.checked);

function show() {
  const bar = document.getElementById("bk-bulk"), all = document.getElementById("bk-all");
  if (!bar || !all) return;
  const count = chosen().length;
  bar.hidden = !count;
  bar.querySelector(".count").textContent = count;
  all.checked = count > 0 && count === boxes().length;
  all.indeterminate = count > 0 && count < boxes().length;
}

/** Begins, where there is a list. */
export function selection() {
  document.addEventListener("change", (event) => {
    if (event.target.id === "bk-all") for (const box of boxes()) box.checked = event.target.checked;
    if (event.target.matches(".bk-list .sel input")) show();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("#bk-bulk-clear")) {
      for (const box of chosen()) box.checked = false;
      show();
    } else if (event.target.closest("#bk-bulk-end")) {
      ask(chosen().map((box) => box.closest("tr").querySelector("[data-end]")));
    }
  });
  onRefresh(show);
}
