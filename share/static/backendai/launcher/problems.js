// What is wrong: the server's errors until their field is edited, and what the controls' own
// constraints and the figures of the page say. Shown at the field, above the steps, on the rail and
// on the review.

const STEP_OF = {
  type: 1, name: 1, project: 1, owner: 1, batch: 1, count: 1, priority: 1, depends_on: 1, environment: 2, version: 2, image: 2, env: 2, resource_group: 2, preset: 2,
  resources: 2, threads: 2, agent: 2, mounts: 3, preopen_ports: 4,
};
const stepOfField = (name) => STEP_OF[name.split(".")[0]] ?? 0;

let fromServer = []; // filled at the beginning, each with the control it is about

/** The control (or the row) that a field of an error is; null for what concerns none. */
function controlOf(name) {
  const [head, part] = name.split(".");
  if (!(head in STEP_OF)) return null;
  if (head === "resources" || head === "threads") return $(`#bk-${part ?? "cpu"}`);
  if (head === "batch" && part !== undefined) return $(`#bk-${part}`);
  if (head === "mounts") return (part !== undefined && mountRows()[Number(part)]) || $("#bk-folders");
  if (head === "env") {
    const inputs = $$("input[name=env_name]", envRows);
    return inputs.find((input) => input.value === part) ?? inputs[Number(part)] ?? $("#bk-env");
  }
  if (head === "preopen_ports") return field("ports");
  if (head === "version") return field(`version.${environment()?.name}`) ?? $("#bk-version");
  return $(`#bk-${head}`);
}

/** The server's errors, each with its control, in the order of the page; what concerns none comes last. */
const placed = (errors) => errors.map((error) => ({ ...error, control: controlOf(error.field) })).sort(({ control: a }, { control: b }) => {
  if (!a || !b || a === b) return Number(!a) - Number(!b);
  return a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1;
});

const GPU = /^resources\.(fgpu|gpu|mig)/; // of which a session has one
const BETWEEN_ROWS = new Set(["overlap", "taken", "duplicate", "too_many"]); // one row's edit may mend the other

/** Forgets the server's errors on what was edited: its own field, and all that hangs on it. */
function edited(target) {
  const name = target?.name ?? "";
  const hangs = {
    environment: /^(environment|version|image|resources|preset|preopen_ports)/, image: /^(environment|version|image|resources)/,
    resource_group: /^(resource_group|preset|agent|resources)/, preset: /^(preset|resources)/, mem: /^resources\.(mem|shm)/,
    fgpu: GPU, gpu: GPU, mig: GPU, gpu_kind: GPU,
    ports: /^preopen_ports/, project: /^project/, type: /^(type|batch)/, timeout_unit: /^batch\.timeout/,
    depends_on: /^depends_on/, depends_on_names: /^depends_on/,
  }[name] ?? (name.startsWith("version.") ? /^(version|image)/ : null);
  const inRows = target?.closest?.("tr[data-folder]") || name === "new_folder";
  fromServer = fromServer.filter((error) => !(
    (error.control && (error.control === target || error.control.contains?.(target)))
    || (name === SECRET && error.control?.parentElement === target.parentElement)
    || hangs?.test(error.field)
    || (inRows && (error.field === "mounts" || BETWEEN_ROWS.has(error.code)))
    || !document.contains(error.control ?? document.body)
  ));
}

/** Everything that is wrong now. Controls that nobody has left yet are not judged. */
function problems() {
  const found = [...fromServer];
  const add = (name, message, control) => {
    if (!found.some((p) => p.control === control)) found.push({ field: name, message, control });
  };
  for (const control of $$("[data-field]", form)) {
    if (control.disabled || control.closest("[hidden]") || control.checkValidity()) continue;
    if (document.activeElement === control && !control.dataset.left) continue;
    add(control.dataset.field, control.title || control.validationMessage, control);
  }
  const has = Object.fromEntries(SLOTS.map((slot) => [slot, amount(slot)]));
  for (const need of chosen("image") ? [] : environment()?.needs ?? []) {
    const input = amountInput(need.slot);
    if (input && has[need.slot] !== null && lacks(need, has)) add(`resources.${need.slot}`, need.text, input);
  }
  const v = verdict();
  if (v.code === "never") add(isCustom() && v.slot ? `resources.${v.slot}` : "preset", v.text, isCustom() && v.slot ? amountInput(v.slot) : $("#bk-preset"));
  const whole = amount(view.rules.shm.within);
  if (amount("shm") !== null && whole !== null && amount("shm") > whole) {
    add("resources.shm", view.rules.shm.text.replace("{mem}", AMOUNT.mem(whole)), amountInput("shm"));
  }
  const wrongPort = ports().find((p) => p.wrong);
  if (wrongPort && !(document.activeElement === field("ports") && !field("ports").dataset.left)) add("preopen_ports", wrongPort.wrong, field("ports"));
  return found;
}

/** Only what a field can put right keeps Launch back; the rest the server decides anew. */
const blocking = (list) => list.filter((p) => stepOfField(p.field));

function renderProblems(list) {
  for (const place of $$("[data-for], [data-mount-error]")) place.textContent = "";
  for (const control of $$(".is-invalid", $("#bk-steps"))) {
    control.classList.remove("is-invalid");
    control.removeAttribute("aria-invalid");
  }
  for (const { field: name, message, control } of list) {
    const row = control?.matches?.("tr[data-folder]") ? control : null;
    const input = row ? $("td.path input", row) : control;
    const place = row ? $("[data-mount-error]", row)
      : (control?.id && $(`#${CSS.escape(control.id)}-error`)) || $(`[data-for="${CSS.escape(name)}"]`) || $(`[data-for="${name.split(".")[0]}"]`);
    if (place) place.textContent = [place.textContent, message].filter(Boolean).join(" ");
    if (input?.matches?.("input, select, textarea")) {
      input.classList.add("is-invalid");
      input.setAttribute("aria-invalid", "true");
    }
  }
  const box = $("#bk-errors");
  box.hidden = list.length === 0;
  $("strong", box).textContent = `${list.length === 1 ? "One thing" : `${list.length} things`} to put right before launch.`;
  $("ul", box).replaceChildren(...list.map((p) => el("li", {}, stepOfField(p.field)
    ? el("a", { class: "alert-link fw-normal", href: `#step-${stepOfField(p.field)}`, onclick: (event) => { event.preventDefault(); goToProblem(p); } }, p.message)
    : p.message)));
}

/** Shows the step of a problem and puts the cursor where it is. */
function goToProblem(problem) {
  show(stepOfField(problem.field) || current);
  const { control } = problem;
  control?.closest("details")?.setAttribute("open", "");
  const target = !control ? $("#bk-errors") : control.matches("input, select, textarea") ? control
    : $("td.path input", control) ?? $("input:checked", control) ?? $("input:not(:disabled), select", control) ?? control;
  target.focus();
  target.scrollIntoView({ block: "center" });
}
