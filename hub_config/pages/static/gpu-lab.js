/* Keeps a page up to date, and keeps what is typed when it cannot be sent. Every page works without it.

   A page names what it follows in main[data-live]; its parts that change are [data-fragment]. The service passes
   on the controller's stream of changes; on each, the parts are fetched anew, at most once a second and never
   faster than the service answers easily. A part in which somebody types is left alone until they have done. */
"use strict";

(() => {
  const main = document.querySelector("main");
  const token = () => document.querySelector('input[name="_xsrf"]')?.value || main.dataset.xsrf || "";
  const text = (name, number) => main.dataset[name].replace("%s", number);
  const LEAST_S = 1, MOST_S = 60, SILENCE_S = 45, BEAT_S = 60, GIVE_UP_TRIES = 60;

  /* ---- live ---- */

  const lineOf = () => document.querySelector("[data-live-line]");
  let told = null; // what the line says, for a page that is swapped under it

  /* `count` changes each second, and is not read out. */
  function tell(message, away, again, count = "") {
    told = [message, away, again, count];
    const line = lineOf();
    if (!line) return;
    line.hidden = false;
    line.classList.toggle("gk-away", away);
    const place = line.querySelector("[data-live-text]");
    if (place.textContent !== message) place.textContent = message;
    line.querySelector("[data-live-count]").textContent = count;
    line.querySelector("[data-live-again]").hidden = !again;
  }

  class Refused extends Error {}
  class SignedOut extends Error {}
  class TooMany extends Error {}

  async function ask(url, signal, headers = {}) {
    const answer = await fetch(url, { headers: { "X-XSRFToken": token(), ...headers }, signal, redirect: "error" });
    if (answer.ok) return answer;
    let kind = "";
    try { kind = (await answer.json()).error.kind; } catch { /* a proxy's page */ }
    if (kind === "signed_out") throw new SignedOut();
    if (kind === "too_many") throw new TooMany();
    if (kind === "refused" || kind === "not_found") throw new Refused();
    throw new Error(`status ${answer.status}`);
  }

  class Live {
    constructor(topics) {
      this.topics = topics;
      this.last = null;
      this.pause = LEAST_S;
      this.waiting = null;
      this.fetching = false;
      this.touched = false;
      this.following = false;
      /* No event tells of time that goes on, of hours used, of a server that falls silent, of others' slices. */
      setInterval(() => { if (this.following) this.plan(0); }, 1000 * BEAT_S);
      document.addEventListener("click", (event) => {
        if (event.target.matches("[data-live-again]")) this.wake?.();
      });
      document.addEventListener("visibilitychange", () => {
        if (document.hidden) this.stop?.abort();
        if (!document.hidden) { this.wake?.(); if (this.touched) this.plan(0); }
      });
    }

    async run() {
      for (;;) {
        /* Browsers have six connections to a host: pages that nobody sees leave them to the others. */
        while (document.hidden) {
          await new Promise((go) => document.addEventListener("visibilitychange", go, { once: true }));
        }
        let why = "sayAway";
        try {
          await this.follow();
        } catch (error) {
          if (error instanceof SignedOut) return tell(text("saySignedOut"), true, false);
          if (error instanceof Refused) return tell(text("sayRefused"), true, false);
          if (error instanceof TooMany) why = "sayTooMany";
        }
        if (!document.hidden) await this.rest(why);
      }
    }

    /* Until the next try: counts down where it can be seen, longer each time. */
    async rest(why) {
      let left = Math.round(this.pause * (0.75 + Math.random() / 2)) || 1;
      this.pause = Math.min(MOST_S, this.pause * 2);
      let woken = false;
      while (left > 0 && !woken) {
        tell(text(why), true, true, text("sayNext", left));
        await new Promise((go) => {
          const timer = setTimeout(go, 1000);
          this.wake = () => { woken = true; clearTimeout(timer); go(); };
        });
        left -= 1;
      }
      this.wake = null;
      tell(text("sayTrying"), true, false);
    }

    async follow() {
      const stop = this.stop = new AbortController();
      let alarm = setTimeout(() => stop.abort(), 1000 * SILENCE_S);
      try {
        const url = `${main.dataset.events}?topics=${encodeURIComponent(this.topics)}`;
        const answer = await ask(url, stop.signal, this.last ? { "Last-Event-ID": this.last } : {});
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        let buffer = "";
        for (;;) {
          const { value, done } = await reader.read();
          if (done) return;
          clearTimeout(alarm);
          alarm = setTimeout(() => stop.abort(), 1000 * SILENCE_S);
          buffer += value;
          const events = buffer.split("\n\n");
          buffer = events.pop();
          for (const event of events) this.heard(event);
        }
      } finally {
        this.following = false;
        clearTimeout(alarm);
        stop.abort();
      }
    }

    heard(event) {
      const fields = Object.fromEntries(event.split("\n").map((row) => row.split(/: ?(.*)/s, 2)));
      if (fields.id) this.last = fields.id;
      if (!fields.event) return;
      tell(text("sayLive"), false, false);
      this.following = true;
      this.pause = LEAST_S;
      /* "ready" too: something may have changed since the page was made. */
      this.plan(1000 * LEAST_S);
    }

    /* Fetches the parts once in a while, however much happens meanwhile. */
    plan(milliseconds) {
      this.touched = true;
      if (this.waiting !== null || this.fetching) return;
      this.waiting = setTimeout(() => { this.waiting = null; this.refresh(); }, milliseconds);
    }

    async refresh() {
      if (document.hidden) return; // caught up with when it is seen again
      this.touched = false;
      this.fetching = true;
      const begun = performance.now();
      try {
        await refreshFragments(shownNow());
      } catch (error) {
        if (error instanceof SignedOut) tell(text("saySignedOut"), true, false);
        else this.touched = true;
      }
      this.fetching = false;
      const took = performance.now() - begun;
      if (this.touched) this.plan(Math.max(1000 * LEAST_S, 4 * took));
    }
  }

  const seen = new WeakMap(); // when a slow part was fetched last
  function shownNow() {
    return [...document.querySelectorAll("[data-fragment]")].filter((part) => {
      const every = 1000 * Number(part.dataset.every || 0);
      return !every || performance.now() - (seen.get(part) || 0) >= every;
    });
  }

  async function refreshFragments(parts) {
    if (!parts.length) return;
    const url = new URL(location.href);
    url.hash = "";
    for (const part of parts) url.searchParams.append("fragment", part.dataset.fragment);
    const made = await (await ask(url)).json();
    for (const part of parts) {
      seen.set(part, performance.now());
      if (part.dataset.fragment in made) replace(part, made[part.dataset.fragment]);
    }
  }

  function replace(part, html) {
    const draft = document.createElement("template");
    draft.innerHTML = html;
    const field = document.activeElement;
    if (part.contains(field) && field.matches("input, select, textarea")) {
      part.dataset.stale = text("sayChanged");
      field.addEventListener("blur", () => { delete part.dataset.stale; replace(part, html); }, { once: true });
      return;
    }
    const keep = { focus: pathTo(part, field), open: openDetails(part), scrolls: scrolls(part) };
    part.replaceChildren(draft.content);
    part.querySelectorAll("details").forEach((details, number) => { if (keep.open.has(number)) details.open = true; });
    part.querySelectorAll(".table-responsive, .gk-scroll").forEach((box, number) => {
      if (keep.scrolls[number]) [box.scrollLeft, box.scrollTop] = keep.scrolls[number];
    });
    if (keep.focus) part.querySelector(keep.focus)?.focus({ preventScroll: true });
  }

  /* How to find the focused thing again: by its id, or by where a link leads. */
  function pathTo(part, element) {
    if (!element || !part.contains(element)) return "";
    if (element.id) return `#${CSS.escape(element.id)}`;
    if (element.matches("a[href]")) return `a[href="${CSS.escape(element.getAttribute("href"))}"]`;
    if (element.matches("summary")) return "summary";
    return element.matches(".table-responsive, .gk-scroll") ? `.${element.classList[0]}` : "";
  }
  const openDetails = (part) =>
    new Set([...part.querySelectorAll("details")].flatMap((details, number) => (details.open ? [number] : [])));
  const scrolls = (part) =>
    [...part.querySelectorAll(".table-responsive, .gk-scroll")].map((box) => [box.scrollLeft, box.scrollTop]);

  /* ---- forms: sent by script, so that nothing that is typed is lost where they cannot be ---- */

  /* By attribute: a button that is called `action` stands in the way of the property. */
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || form.getAttribute("method") !== "post") return;
    event.preventDefault();
    if (form.dataset.busy) return;
    if (form.dataset.confirm && !window.confirm(form.dataset.confirm)) return;
    const body = new URLSearchParams(new FormData(form, event.submitter));
    form.dataset.busy = "1";
    trouble(form, "");
    document.getElementById("done")?.remove(); // it was about the form before
    try {
      const answer = await fetch(form.getAttribute("action") || location.href, { method: "POST", body, headers: { "X-XSRFToken": token() } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (answer.redirected && answer.ok) return location.assign(answer.url);
      if (answer.status >= 500 || !page.querySelector("main [data-form-trouble], main form")) {
        const over = answer.status === 403 && page.querySelector("main[data-events]");
        return trouble(form, over ? text("saySession") : errorOf(page) || text("sayNotSent"));
      }
      swap(page);
    } catch {
      trouble(form, text("sayNotSent"));
    } finally {
      delete form.dataset.busy;
    }
  });

  /* What a page of ours says went wrong; nothing of a proxy's page. */
  function errorOf(page) {
    const ours = page.querySelector("main[data-events] .gk-lines");
    return ours ? ours.textContent : "";
  }

  function trouble(form, message) {
    const place = form.parentElement.querySelector("[data-form-trouble]") || document.querySelector("[data-form-trouble]");
    if (!place) return message && window.alert(message);
    place.hidden = !message;
    place.textContent = message;
  }

  /* The page as it came back with a refusal, in place of this one; the reason is looked at first. */
  function swap(page) {
    const fresh = page.querySelector("main");
    document.querySelectorAll("[data-fragment]").forEach((part) => delete part.dataset.stale);
    main.replaceChildren(...fresh.childNodes);
    if (told) tell(...told);
    const first = main.querySelector(".is-invalid, [data-refusal], .invalid-feedback");
    first?.focus?.();
    first?.scrollIntoView({ block: "center" });
  }

  /* ---- a page that could not be made: tries again, and says when ---- */

  async function retry() {
    const place = document.querySelector("[data-retry-line]");
    if (!place) return;
    place.hidden = false;
    let pause = Number(main.dataset.retry);
    for (let tries = 0; tries < GIVE_UP_TRIES; tries += 1) {
      for (let left = Math.round(pause); left > 0; left -= 1) {
        place.textContent = place.dataset.sayNext.replace("%s", left);
        await new Promise((go) => setTimeout(go, 1000));
      }
      try {
        const answer = await fetch(location.href, { headers: { "X-XSRFToken": token() }, redirect: "manual" });
        if (answer.ok || answer.type === "opaqueredirect" || answer.status < 500) return location.reload();
      } catch { /* not there yet */ }
      pause = Math.min(MOST_S, pause * 1.5);
    }
    place.textContent = place.dataset.sayGivenUp;
  }

  let live = null;
  if (main.dataset.live && lineOf()) {
    live = new Live(main.dataset.live);
    live.run();
  }
  if (main.dataset.retry) retry();
})();
