// Whether this browser may show notifications, in the server's words; it is asked only by a button.
import { say } from "./api.js";
import { begin } from "./warning.js";

const place = document.getElementById("bk-ask");

function state() {
  if (!window.isSecureContext) return "insecure";
  return "Notification" in window ? Notification.permission : "missing";
}

/** Says how it is. */
export function offer() {
  const now = state();
  for (const node of place.querySelectorAll("[data-when]")) node.hidden = node.dataset.when !== now;
  return place.querySelector(`[data-when="${now}"]`);
}

place.querySelector("button").addEventListener("click", async () => {
  await Notification.requestPermission();
  say(offer().textContent.trim());
  begin();
});
