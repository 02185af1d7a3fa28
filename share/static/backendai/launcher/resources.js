// Resource group, preset, amounts and the verdict. The figures come with the page; the server decides.

const GPUS = ["fgpu", "gpu", "mig"]; // a session has one of them
const SLOTS = ["cpu", "mem", "shm", ...GPUS];
const UNIT = { cpu: 1000, mem: GIB, shm: GIB, fgpu: 1000, gpu: 1000, mig: 1000 };
const LOOK = { now: ["circle-check", "bk-ok"], waits: ["hourglass-half", "bk-warn"], never: ["ban", "bk-quiet"] };
const madeAt = view.made_at ?? performance.timeOrigin / 1000;

const amountInput = (slot) => $(`#bk-${slot}`);
const slider = (slot) => $(`[data-slider="${slot}"]`);
const preset = () => group()?.presets.find((p) => p.name === chosen("preset")) ?? null;
const presetCards = () => $(`[data-presets-of="${CSS.escape(group()?.name ?? "")}"]`);

/** A raw amount as its number field takes it; exact for whole megabytes. */
const shown = (slot, raw) => String(Number((raw / UNIT[slot]).toFixed(9)));

/** What the number field says, raw; null when it is empty or no number. */
function typedAmount(slot) {
  const text = amountInput(slot)?.value.trim() ?? "";
  return text === "" ? null : Math.round(Number(text) * UNIT[slot]);
}

const presetAmount = (slot) => preset()?.[slot] ?? (GPUS.includes(slot) && preset() ? 0 : null);
const offers = (slot) => !GPUS.includes(slot) || Boolean(group()?.gpus.some((kind) => kind.slot === slot));

/** What the session would have; null where the server chooses (shared memory). */
const amount = (slot) => (offers(slot) ? typedAmount(slot) ?? presetAmount(slot) : 0);
const isOverride = (slot) => amountInput(slot) !== null && offers(slot) && typedAmount(slot) !== null && typedAmount(slot) !== presetAmount(slot);
const otherProfile = () => (amount("mig") > 0 && chosen("mig_profile") !== (preset()?.mig_profile ?? "") ? chosen("mig_profile") : "");
const isCustom = () => SLOTS.some(isOverride) || Boolean(otherProfile());

/** The slot of GPUs that the session has, or would have some of. */
const gpuSlot = () => GPUS.find((slot) => amount(slot) > 0)
  ?? [chosen("gpu_kind"), ...GPUS].find((slot) => GPUS.includes(slot) && offers(slot) && amountInput(slot));
/** The kind of GPUs of a slot: of MIG devices those of the profile. */
const kindOf = (slot) => group()?.gpus.find((kind) => kind.slot === slot && (!kind.profile || kind.profile === profile()));
const profile = () => chosen("mig_profile") || preset()?.mig_profile || group()?.gpus.find((kind) => kind.profile)?.profile;

/** Another kind: it begins with what the preset has of it, or with one step; the others have nothing. */
function useKind(wanted) {
  for (const slot of GPUS.filter(amountInput)) {
    amountInput(slot).value = slot === wanted ? shown(slot, presetAmount(slot) || kindOf(slot)?.quantum || 1000) : "0";
  }
}

/** Fills the number fields from the preset. */
function usePreset() {
  for (const slot of SLOTS) {
    const input = amountInput(slot);
    if (input) input.value = presetAmount(slot) === null ? "" : shown(slot, presetAmount(slot));
  }
  if (field("mig_profile")) field("mig_profile").value = preset()?.mig_profile ?? "";
}

/** What amounts have too little of for the environment: an entry of its `needs`. */
const tooSmall = (amounts) => environment()?.needs.find((need) => lacks(need, amounts)) ?? null;
const lacks = ({ slot, least, unless, given }, amounts) => amounts[slot] < least
  && !unless?.some((other) => amounts[other] > 0) && !(given && !amounts[slot]);

/** Shows the presets of the chosen group; keeps the preset of that name, or takes the first that fits. */
function groupChanged(wanted = chosen("preset"), keepNumbers = false) {
  for (const block of $$("[data-presets-of]")) {
    const mine = block.dataset.presetsOf === group()?.name;
    block.hidden = !mine;
    for (const input of $$("input", block)) {
      input.disabled = !mine || "never" in input.dataset;
      if (!mine) input.checked = false;
    }
  }
  if (!wanted || !choose("preset", wanted)) firstFitting();
  if (!keepNumbers) usePreset();
  const agents = $("#bk-agent");
  if (!agents) return;
  for (const options of $$("optgroup", agents)) options.hidden = options.disabled = options.dataset.group !== group()?.name;
  if (agents.selectedOptions[0]?.closest("optgroup")?.disabled) agents.value = "auto";
  $("#bk-agent-col").hidden = !group()?.choose_agent;
}

function firstFitting() {
  const fits = group()?.presets.find((p) => p.verdict.code !== "never" && !tooSmall(p)) ?? group()?.presets[0];
  if (fits) choose("preset", fits.name);
}

/** The environment changed: a preset that it cannot run on gives way, unless the numbers are the user's own. */
function environmentChanged() {
  for (const block of $$("[data-version-of]")) block.hidden = block.dataset.versionOf !== environment()?.name;
  if (!isCustom() && preset() && tooSmall(preset())) {
    firstFitting();
    usePreset();
  }
  versionChanged();
}

/** An image of the user's own may be on one agent: its group is chosen with it, which the server asks for. */
function versionChanged() {
  const version = environment()?.versions.find(({ name }) => name === field(`version.${environment().name}`).value);
  const { agent, resource_group: place } = version ?? {};
  if (place && place !== group()?.name && choose("resource_group", place)) groupChanged(chosen("preset") || undefined, isCustom());
  if (agent && ![undefined, "auto", agent].includes(field("agent")?.value)) field("agent").value = "auto";
  $("#bk-place").textContent = agent ? `This image is on the agent ${agent} only, so the session starts there.` : "";
}

// The verdict on amounts: the first of the server's bounds that they are over, in its own words.

function judge(amounts) {
  const g = group();
  if (!g) return view.rules.nowhere;
  const agent = $("#bk-agent-col")?.hidden === false ? g.agents.find((a) => a.name === chosen("agent")) : null;
  const place = agent ?? g;
  const over = place.bounds.find((bound) => amounts[bound.slot] > bound.over && (!bound.profile || bound.profile === profile()));
  const agents = agent ? [agent] : g.agents;
  // What an agent has that never answered is not known: it makes nothing impossible.
  const known = agents.filter((a) => Object.values(a.capacity).some((has) => has > 0));
  if (over?.code !== "never" && known.length && !known.some((a) => roomFor(amounts, a.capacity))) return place.apart;
  if (over) return { ...over, why: over.why.replace("{asked}", AMOUNT[over.slot](amounts[over.slot])) };
  return agents.some((a) => takesSessions(a) && roomNow(amounts, a)) ? place.otherwise : place.together;
}

const takesSessions = (agent) => agent.available && agent.schedulable;
const roomFor = (amounts, room) => Object.entries(room).every(([slot, has]) => (amounts[slot] ?? 0) <= has);

/** Whether an agent has room now: of GPUs what one session could be given there. */
const roomNow = (amounts, { free, gpus = {} }) => roomFor(amounts, free)
  && GPUS.every((slot) => !(amounts[slot] > (gpus[slot === "mig" ? profile() : slot] ?? Infinity)));

const ahead = (others) => (others ? view.rules.ahead.replace("{ahead}", others) : view.rules.in_line);

/** What is judged: where nothing is said, what the server would take (without a preset it tells that beforehand). */
const amounts = () => {
  const usual = group()?.usual?.[chosen("image") ? "" : environment()?.name];
  return Object.fromEntries(SLOTS.map((slot) => [slot, amount(slot) ?? usual?.[slot] ?? null]));
};

/** The verdict on the form: the server's own words for a preset as it is, or with a GPU that the
 * group lacks, which no other number mends; else by its bounds. */
function verdict() {
  const p = preset();
  const auto = (chosen("agent") || "auto") === "auto";
  const lacking = GPUS.some((slot) => p?.[slot] > 0 && !offers(slot));
  if (!p || ((isCustom() || !auto) && !lacking)) return judge(amounts());
  const { code, text, ahead: others } = p.verdict;
  return code === "waits" ? { code, text: ahead(others), why: text } : { code, text, why: "" };
}

// Sliders: the bar shows what is free and what is left; its end is the limit.

/** The slider's step, raw: fine where the whole is small. */
function stepOf(slot, most) {
  if (GPUS.includes(slot)) return kindOf(slot)?.quantum ?? (slot === "fgpu" ? 100 : 1000);
  const whole = most / UNIT[slot];
  return UNIT[slot] * (slot === "cpu" ? (whole <= 8 ? 0.5 : 1) : whole <= 2 ? 0.0625 : whole <= 16 ? 0.25 : whole <= 64 ? 0.5 : 1);
}

function renderSlot(slot) {
  const input = amountInput(slot), kind = kindOf(slot), limits = kind?.limits ?? group()?.limits[slot];
  if (!input || !limits) return;
  if (GPUS.includes(slot)) renderKind(slot, kind, input);
  const mem = amount("mem") ?? limits.most;
  const most = Math.max(slot === "shm" ? Math.min(limits.most, mem) : limits.most, 1);
  const step = stepOf(slot, most);
  const range = slider(slot);
  const end = Math.max(step, Math.floor(most / step) * step);
  Object.assign(range, { min: 0, step: step / UNIT[slot], max: end / UNIT[slot] });
  range.value = (amount(slot) ?? 0) / UNIT[slot];
  range.setAttribute("aria-valuetext", amount(slot) === null ? "chosen for you" : AMOUNT[slot](amount(slot)));
  range.classList.toggle("auto", amount(slot) === null);
  const left = Math.min(limits.left ?? most, most), free = Math.min(limits.free ?? most, left);
  range.style.setProperty("--free", slot === "shm" ? 1 : free / end);
  range.style.setProperty("--left", slot === "shm" ? 1 : left / end);
  input.placeholder = amount(slot) === null ? "auto" : "";
  $(`[data-slot="${slot}"] .bk-figs`).replaceChildren(...figures(slot, limits, most));
  hint(slot, limits, step);
}

/** A row of GPUs: of the kind that the session has, with what that is and how hard it is held. */
function renderKind(slot, kind, input) {
  input.closest(".bk-slot").hidden = !offers(slot) || !(slot === gpuSlot() || amount(slot) > 0);
  input.step = kind?.quantum ? kind.quantum / UNIT[slot] : "any";
  input.title = kind?.steps ?? "";
  for (const line of $$("[data-kind]", input.closest(".bk-slot"))) {
    line.hidden = line.dataset.of !== group()?.name || line.dataset.kind !== (kind?.profile ?? slot);
    if (!line.hidden) $(".means", line).textContent = kind.means[amount(slot)] ?? kind.means[1000] ?? "";
  }
}

/** The kinds that the group has, where there are several, and the profiles. */
function renderKinds() {
  const box = $("#bk-gpu-kind");
  if (box) {
    box.hidden = GPUS.filter(offers).length < 2;
    for (const radio of $$("input", box)) {
      radio.parentElement.hidden = !offers(radio.value);
      radio.checked = radio.value === gpuSlot();
    }
  }
  for (const option of field("mig_profile")?.options ?? []) {
    option.hidden = option.disabled = option.value ? !group()?.gpus.some((kind) => kind.profile === option.value) : !preset()?.mig;
  }
  const select = field("mig_profile");
  if (select?.selectedOptions[0]?.disabled) select.value = profile() ?? "";
}

function figures(slot, limits, most) {
  const figure = (label, raw) => el("span", {}, `${label} `, el("b", {}, slot === "mem" ? AMOUNT.mem(raw) : shown(slot, raw)));
  if (slot === "shm") {
    return [el("span", {}, amount("shm") === null ? "Chosen for you. " : "", `Part of the ${AMOUNT.mem(amount("mem") ?? most)} of memory.`)];
  }
  return [
    figure("Free on one machine now", limits.free ?? most),
    limits.left === null || limits.left === undefined ? null : figure("Left to you", limits.left),
    figure("Limit", limits.most),
  ].filter(Boolean);
}

/** Where this slot makes the session wait, offer what would not. */
function hint(slot, limits, step) {
  const place = $(`[data-slot="${slot}"] .hint`), input = amountInput(slot);
  const now = judge(amounts());
  const best = Math.floor(Math.min(limits.free ?? Infinity, limits.left ?? Infinity) / step) * step;
  const better = now.code !== "now" && now.slot === slot && best > 0 && !tooSmall({ [slot]: best })
    && judge({ ...amounts(), [slot]: best }).code === "now";
  place.hidden = !better;
  if (!better) return;
  place.replaceChildren(icon("lightbulb", "me-1 bk-quiet"), el("button", { type: "button", class: "bk-plain", onclick: () => {
    setAmount(slot, best);
    input.focus();
  } }, `${AMOUNT[slot](best)} ${slot === "cpu" && best !== 1000 ? "start" : "starts"} now`));
}

function setAmount(slot, raw) {
  amountInput(slot).value = shown(slot, raw);
  for (const type of ["input", "change"]) amountInput(slot).dispatchEvent(new Event(type, { bubbles: true }));
}

/** The machines of the group with GPUs, and which of them have room for all that is asked. */
function renderGpus() {
  const asked = amounts();
  for (const panel of $$("[data-gpus-of]")) {
    panel.hidden = panel.dataset.gpusOf !== group()?.name;
    if (panel.hidden) continue;
    for (const row of $$("[data-agent]", panel)) {
      const agent = group().agents.find((a) => a.name === row.dataset.agent);
      const takes = takesSessions(agent), fits = takes && roomNow(asked, agent);
      row.classList.toggle("fit", fits);
      $(".fits", row).replaceChildren(...(fits ? [icon("circle-check", "me-1"), "has room for this"] : takes ? ["no room for this now"] : []));
    }
  }
}

function renderResources() {
  const custom = isCustom(), cards = presetCards();
  if (cards) {
    $(".bk-cards", cards).classList.toggle("custom", custom);
    const card = $(".bk-custom", cards);
    card.hidden = !custom;
    if (custom) {
      const v = verdict();
      $(".base", card).textContent = preset()?.name ?? "";
      $(".verdict", card).className = `verdict d-block mt-2 bk-13 ${LOOK[v.code][1]}`;
      $(".verdict", card).replaceChildren(icon(LOOK[v.code][0], "me-1"), v.text.replace(/\.$/, ""));
    }
    for (const input of $$("input[name=preset]", cards)) {
      const p = group().presets.find((other) => other.name === input.value);
      const short = p && tooSmall(p);
      const v = short && !("never" in input.dataset) ? { code: "never", text: `Too small: ${short.text}` } : p.verdict;
      const place = $(".verdict", input.parentElement);
      place.className = `verdict ${LOOK[v.code]?.[1] ?? "bk-warn"}`;
      place.replaceChildren(icon(LOOK[v.code]?.[0] ?? "hourglass-half", "me-1"), v.text.replace(/\.$/, ""));
    }
  }
  renderKinds();
  SLOTS.forEach(renderSlot);
  renderGpus();
  const threads = ["omp", "openblas"].map((name) => chosen(name)).filter(Boolean);
  const agent = chosen("agent") || "auto";
  const says = [
    $("#bk-agent-col") && !$("#bk-agent-col").hidden ? (agent === "auto" ? "agent chosen for you" : `on ${agent}`) : null,
    threads.length ? `${threads.join(" and ")} threads` : "as many threads as cores",
  ].filter(Boolean).join(", ");
  $("#bk-more-says").textContent = says[0].toUpperCase() + says.slice(1);
}

function initResources(changed) {
  for (const range of $$("[data-slider]")) {
    const slot = range.dataset.slider;
    range.addEventListener("input", () => {
      amountInput(slot).value = range.value;
      changed();
    });
  }
  form.addEventListener("click", (event) => {
    if (!event.target.closest(".undo")) return;
    usePreset();
    changed();
    $("input[name=preset]:checked", form)?.focus();
  });
}
