// The tab's title and icon, as the newest part of the page says.
import { onRefresh } from "./live.js";

function show() {
  const told = [...document.querySelectorAll("[data-tab]")].find((node) => !node.closest(".offcanvas"));
  if (!told) return;
  document.title = told.dataset.title;
  const icon = document.getElementById("bk-tab-icon");
  const href = icon?.dataset[told.dataset.tab];
  if (href && icon.getAttribute("href") !== href) icon.setAttribute("href", href);
}

/** Begins, where a page says something of its tab. */
export function tab() {
  show();
  onRefresh(show);
}
