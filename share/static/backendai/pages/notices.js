// What becomes of one's sessions: a drawer with all of it, a note for what is new, the browser's own
// notification where that is allowed. All words come from the server.
import { onRefresh } from "./live.js";
import { tell } from "./times.js";

const READ = "backendai-read", SEEN = "backendai-seen"; // in this browser's storage
const STAYS = 5000; // ms that a note of an end stays

const $ = (name) => document.getElementById(`bk-${name}`);
const notes = new Map(); // the notes that are shown, by session

const read = () => localStorage.getItem(READ) ?? "";
const seen = () => JSON.parse(sessionStorage.getItem(SEEN) ?? "null");

function count() {
  const fresh = [...document.querySelectorAll("#bk-drawer [data-notice]")].filter((item) => item.dataset.at > read());
  for (const item of document.querySelectorAll("#bk-drawer [data-notice]")) item.classList.toggle("new", item.dataset.at > read());
  $("bell-count").textContent = fresh.length || "";
  $("bell").setAttribute("aria-label", fresh.length ? `Notifications, ${fresh.length} new` : "Notifications");
}

function markRead() {
  const newest = document.querySelector("#bk-drawer [data-notice]")?.dataset.at;
  if (newest && newest > read()) localStorage.setItem(READ, newest);
  count();
}

function close(id) {
  notes.get(id)?.remove();
  notes.delete(id);
}

function note(item) {
  const id = item.dataset.notice;
  if (notes.get(id)?.html === item.innerHTML) return; // it says nothing new
  const box = notes.get(id) ?? document.createElement("div");
  box.className = "bk-note bk-panel";
  box.dataset.state = item.dataset.state;
  box.html = item.innerHTML;
  const shut = document.createElement("button");
  shut.type = "button";
  shut.className = "btn-close";
  shut.setAttribute("aria-label", "Close");
  shut.addEventListener("click", () => close(id));
  const copy = item.cloneNode(true);
  const text = document.createElement("div");
  text.append(...copy.childNodes);
  box.replaceChildren(shut, text);
  if (!notes.has(id)) $("toasts").append(box);
  notes.set(id, box);
  tell(box);
  if ("over" in item.dataset) setTimeout(() => notes.get(id) === box && box.dataset.state === item.dataset.state && close(id), STAYS);
}

function outside(item) {
  if (!("Notification" in window) || Notification.permission !== "granted" || document.visibilityState === "visible") return;
  if (!("ready" in item.dataset || "over" in item.dataset)) return;
  let told;
  try {
    told = new Notification(item.querySelector(".title").textContent, { tag: `backendai-${item.dataset.notice}` });
  } catch {
    return; // some browsers allow it to a worker only; the note is there all the same
  }
  told.addEventListener("click", () => {
    window.focus();
    location.href = item.querySelector(".title").href;
  });
}

/** Shows what is new since the last look of this tab. */
function compare() {
  const before = seen(), now = {};
  const shown = new URLSearchParams(location.search).get("launched")?.split(",") ?? [];
  const items = [...document.querySelectorAll("#bk-drawer [data-notice]")].reverse();
  for (const item of items) {
    const { notice, state } = item.dataset;
    now[notice] = state;
    const known = before ?? now;
    if (known[notice] === state && !(notes.has(notice) || shown.includes(notice))) continue;
    if (known[notice] === state && !notes.has(notice) && seen()?.[`shown-${notice}`]) continue;
    note(item);
    if (known[notice] !== state) outside(item);
  }
  for (const id of shown) now[`shown-${id}`] = true;
  sessionStorage.setItem(SEEN, JSON.stringify(now));
}

async function offer() {
  (await import("./asking.js")).offer();
}

/** Begins, where there is a drawer; the page of notifications has none. */
export function notices() {
  if (!$("drawer")) {
    if ($("ask")) offer();
    return;
  }
  onRefresh((node) => {
    if (node.dataset.part !== "notices") return;
    compare();
    count();
  });
  $("read").addEventListener("click", markRead);
  $("bell").addEventListener("keydown", (event) => {
    if (event.key !== " ") return; // it is a link for those without a script, and a button here
    event.preventDefault();
    event.currentTarget.click();
  });
  $("drawer").addEventListener("hidden.bs.offcanvas", markRead);
  $("drawer").addEventListener("show.bs.offcanvas", offer);
}
