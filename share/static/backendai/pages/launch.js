// The launcher of the service: what the server says of the form while it is filled in, recent launches, and
// notifications.
import { atReview, judged, onChange, read } from "../launcher/launcher.js";
import { Refused, call, part, say, send, trouble } from "./api.js";
import { endings } from "./end.js";
import { listen } from "./live.js";
import { notices } from "./notices.js";
import { tell } from "./times.js";

const PAUSE = 400; // ms without a change before the server is asked
const AGAIN = 20000; // ms after which a review that stays open is asked about again
const SIGNED_OUT = "You are signed out. What you typed stays in this tab.";
let waiting = 0, asking = null, last = "";

/** Has the server judge the form as it is posted, once nobody types. It only does so for a review, which
 * nothing is launched without: until then the page's own figures are enough. */
function judge() {
  clearTimeout(waiting);
  asking?.abort();
  last = "";
  if (atReview()) waiting = setTimeout(ask, PAUSE);
}

async function ask() {
  waiting = setTimeout(ask, AGAIN);
  if (document.hidden) return;
  asking = new AbortController();
  const { signal } = asking;
  try {
    const found = await send("verdict", read(), signal);
    if (signal.aborted) return;
    trouble("");
    if (last !== JSON.stringify(found)) judged(found); // what did not change is not drawn anew
    last = JSON.stringify(found);
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof Refused)) throw error;
    if (error.status === 401 || error.status === 403) trouble(SIGNED_OUT, location.href);
  }
}

// Recent launches

const nameOf = (row) => row.querySelector(".name").textContent;

async function change(row, method, body, said) {
  try {
    await call(method, `api/history/${row.dataset.launch}`, body);
    trouble("");
    say(said);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    trouble(error.message);
  }
  await renew();
}

/** Shows the recent launches as they are now; they stay open, and the focus stays where it is. */
async function renew() {
  const place = document.getElementById("bk-recent-place");
  const { open } = place.querySelector("details");
  const at = document.activeElement.closest("[data-do]"), row = at?.closest("[data-launch]").id;
  place.innerHTML = await part("recent", location.pathname);
  const details = place.querySelector("details");
  if (details) details.open = open;
  (place.querySelector(`#${row} [data-do=${at?.dataset.do}]`) ?? details?.querySelector("summary"))?.focus();
  tell(place);
}

function rename(row) {
  const link = row.querySelector(".name"), old = nameOf(row);
  const input = Object.assign(document.createElement("input"), { className: "form-control form-control-sm", value: old, maxLength: 64, ariaLabel: `New name of ${old}` });
  let over = false;
  const done = (name) => {
    if (over) return; // what is taken away loses the focus, which ends it too
    over = true;
    input.replaceWith(link);
    row.querySelector("[data-do=rename]").focus();
    if (name && name !== old) change(row, "PATCH", { name }, `It is called ${name} now.`);
  };
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault(); // or Enter would press the button that has the focus next
    done(event.key === "Enter" ? input.value.trim() : "");
  });
  input.addEventListener("blur", () => done(input.value.trim()));
  link.replaceWith(input);
  input.select();
}

const DO = {
  pin: (row, button) => {
    const pinned = button.getAttribute("aria-pressed") !== "true";
    change(row, "PATCH", { pinned }, pinned ? `${nameOf(row)} is kept.` : `${nameOf(row)} is kept no longer.`);
  },
  rename,
  forget: (row) => change(row, "DELETE", undefined, `${nameOf(row)} is forgotten.`),
};

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-do]");
  if (button) DO[button.dataset.do](button.closest("[data-launch]"), button);
});

// Notifications

/** Puts the drawer's list, the one part here that changes by itself, in the place of what it was: it has
 * links only, and the one with the focus keeps it. */
function replace(node, html) {
  if (node.html === html) return;
  const address = node.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  node.innerHTML = node.html = html;
  if (address === null) return;
  const links = [...node.querySelectorAll("a")];
  (links.find((link) => link.getAttribute("href") === address) ?? links[0])?.focus();
}

/** Keeps notes above the bar at the foot of the form, however high that is. */
function makeRoom() {
  const bar = document.querySelector(".bk-bar");
  new ResizeObserver(() => document.documentElement.style.setProperty("--bk-foot", `${bar.offsetHeight}px`)).observe(bar);
}

tell();
onChange(judge);
judge();
makeRoom();
endings();
notices();
listen(replace, SIGNED_OUT);
