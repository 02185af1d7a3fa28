// Rows are cards on a phone, by `display`, which takes from some browsers that they are rows: so that is said.
import { onRefresh } from "./live.js";

const ROLES = { TABLE: "table", THEAD: "rowgroup", TBODY: "rowgroup", TR: "row", TD: "cell", TH: "columnheader" };

function say(root) {
  for (const table of root.querySelectorAll(".bk-list, .bk-history, .bk-agents, .bk-waiting")) {
    for (const node of [table, ...table.querySelectorAll("thead, tbody, tr, td, th")]) {
      if (node.closest("table") === table) node.setAttribute("role", node.scope === "row" ? "rowheader" : ROLES[node.tagName]);
    }
  }
}

/** Begins, wherever there are tables. */
export function roles() {
  say(document);
  onRefresh(say);
}
