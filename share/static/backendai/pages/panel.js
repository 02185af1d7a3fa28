// The panel beside the list: a session's page, without leaving the list. Without it the links lead there.
import { Refused, part, trouble } from "./api.js";
import { onRefresh } from "./live.js";
import { fetchLate } from "./session.js";
import { tell } from "./times.js";

const PART = "detail";
let shown = null, opener = null, wanted = "";

const side = () => document.getElementById("bk-side");

/** The panel is called as its session is. */
function name() {
  const heading = side().querySelector("h1");
  if (heading) side().setAttribute("aria-label", heading.textContent);
}

async function open(address, push = true) {
  const node = side(), body = node.querySelector(".offcanvas-body");
  let html;
  wanted = address;
  try {
    html = await part(PART, address);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    trouble(error.message);
    return;
  }
  if (wanted !== address) return; // another was asked for meanwhile
  body.innerHTML = html;
  body.dataset.from = address;
  body.dataset.part = PART;
  tell(body);
  fetchLate(body);
  name();
  if (push) history.pushState({ panel: address }, "", address);
  shown ??= new bootstrap.Offcanvas(node);
  shown.show();
}

function closed() {
  const body = side().querySelector(".offcanvas-body");
  wanted = "";
  delete body.dataset.part;
  body.replaceChildren();
  if (history.state?.panel) history.back();
  opener?.focus();
}

/** Begins, where there is a list with a panel. */
export function panel() {
  const node = side();
  if (!node) {
    // A reload with the panel open has made a page of it; from there back is the list.
    window.addEventListener("popstate", () => location.reload());
    return;
  }
  for (const each of document.querySelectorAll("[data-part=list], [data-part=again]")) each.dataset.from = location.href;
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".bk-list [data-panel]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    opener = link;
    open(link.href);
  });
  onRefresh(name);
  node.addEventListener("hidden.bs.offcanvas", closed);
  // Bootstrap listens inside it only, where the focus is not before it has slid in.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector("dialog[open]") && node.matches(".show, .showing")) shown.hide();
  });
  window.addEventListener("popstate", (event) => {
    if (event.state?.panel) open(event.state.panel, false);
    else shown?.hide();
  });
}
