// What only the service's launcher has on step 1: a command with its times, how many, after what.

const whenPicked = $("#bk-when");
const two = (number) => String(number).padStart(2, "0");

/** A picked time with this computer's zone, as the server reads it. */
function zoned(local) {
  const minutes = -new Date(local).getTimezoneOffset();
  return `${local}${minutes < 0 ? "-" : "+"}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
}

function renderOrder() {
  $("#bk-batch").hidden = !isBatch();
  $("#bk-command").disabled = !isBatch();
  const sessions = Number(chosen("count")) || 1, after = waitedFor();
  $("#bk-order-says").textContent = [
    sessions === 1 ? "1 session" : `${sessions} sessions`,
    chosen("priority") ? `priority ${chosen("priority")}` : "your usual priority",
    after.length ? `after ${after.join(", ")}` : "as soon as there is room",
  ].join(", ");
}

whenPicked?.addEventListener("change", () => {
  field("starts_at").value = whenPicked.value ? zoned(whenPicked.value) : "";
  for (const type of ["input", "change"]) field("starts_at").dispatchEvent(new Event(type, { bubbles: true }));
});
