// Warnings of ends as the browser's own notifications, where it may show them: each once, whatever tabs there
// are. The server says which there are, and in what words.
import { fetchLate } from "./session.js";

const WHERE = "[data-late=warnings]";
const TOLD = "backendai-told"; // in this browser's storage: the warnings that were shown
const MOST = 100; // of them are remembered
const AGAIN = 60000; // ms between two looks of a tab that nobody sees
let begun = false;

function show(item) {
  const says = (name) => item.querySelector(`[data-says=${name}]`);
  let told;
  try {
    told = new Notification(says("title").textContent, { body: says("body").textContent, tag: `backendai-${item.dataset.tell}` });
  } catch {
    return; // some browsers allow it to a worker only; the page has it all the same
  }
  told.addEventListener("click", () => {
    window.focus();
    location.href = says("more").href;
  });
}

function look(box) {
  const told = JSON.parse(localStorage.getItem(TOLD) ?? "[]");
  for (const item of box.querySelectorAll("[data-tell]")) {
    if (told.includes(item.dataset.tell)) continue;
    told.push(item.dataset.tell);
    localStorage.setItem(TOLD, JSON.stringify(told.slice(-MOST)));
    show(item);
  }
}

/** Begins, where the page has warnings and the browser may show them. */
export function begin() {
  const box = document.querySelector(WHERE);
  if (begun || !box || window.Notification?.permission !== "granted") return;
  begun = true;
  new MutationObserver(() => look(box)).observe(box, { childList: true });
  look(box);
  setInterval(() => document.hidden && fetchLate(document, WHERE), AGAIN);
}
