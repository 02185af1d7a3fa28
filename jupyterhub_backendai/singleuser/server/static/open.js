// Asks how far the app is, and goes on to it when it answers.
"use strict";

const main = document.querySelector("main[data-poll]");
const status = document.getElementById("status");
const FIRST = 700; // milliseconds from question to question; longer when it takes long
const SLOWEST = 5000;
let pause = FIRST;

function say(text) {
  if (status && status.textContent !== text) status.textContent = text;
}

function show(log) {
  const wrote = document.getElementById("wrote");
  if (!wrote || wrote.textContent === log) return;
  wrote.textContent = log;
  wrote.scrollTop = wrote.scrollHeight;
  document.getElementById("log-section").hidden = !log;
}

async function look() {
  try {
    const answer = await fetch(main.dataset.poll, {
      headers: { Accept: "application/json" },
      cache: "no-store",
    });
    if (answer.status === 403) return location.reload(); // to sign in again
    const how = await answer.json();
    if (how.ready) {
      if (status) say("It answers. Going on…");
      return location.replace(main.dataset.goal);
    }
    if (how.state !== main.dataset.state) return location.replace(main.dataset.settled);
    show(how.wrote);
  } catch {
    say("The session does not answer. Trying again…");
  }
  pause = Math.min(SLOWEST, pause * 1.05);
  setTimeout(look, document.hidden ? SLOWEST : pause);
}

if (main && ["starting", "waiting"].includes(main.dataset.state)) setTimeout(look, FIRST);
