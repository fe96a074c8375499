/**
 * Listens to the server's events, for as long as the page is in sight.
 *
 * A stream that breaks is opened again after a pause that grows to a minute; from the second failure on it is
 * said that what is shown may be old. With `fetch`, and not `EventSource`, which cannot tell a server that has
 * no such address from one that is away. Hidden pages do not listen: a browser opens six connections to a
 * server, and the first events of a stream tell all that was missed.
 */

import { Signal } from '@lumino/signaling';

import { type Api, Refused } from './api';
import type { KernelEvent } from './resources';
import type { Slices } from './slices';

const LONGEST_PAUSE_MS = 60_000;
/** The server says every 15 s that it is still there. */
const SILENT_MS = 50_000;

/** `absent`: this server has no such extension. */
export type State = 'opening' | 'open' | 'broken' | 'absent';

export class Listener {
  readonly changed = new Signal<this, State>(this);
  private _state: State = 'opening';
  private _abort = new AbortController();

  constructor(
    private _api: Api,
    private _slices: Slices
  ) {
    document.addEventListener('visibilitychange', () => {
      if (document.hidden) {
        this._abort.abort();
      }
    });
  }

  get state(): State {
    return this._state;
  }

  async listen(): Promise<void> {
    for (let failures = 0; this._state !== 'absent'; ) {
      await inSight();
      try {
        await this._once(() => {
          failures = 0;
        });
      } catch (error) {
        if (error instanceof Refused && error.status === 404) {
          this._become('absent');
          return;
        }
      }
      if (!document.hidden) {
        failures += 1;
        if (failures > 1) {
          this._become('broken');
        }
        await pause(Math.min(LONGEST_PAUSE_MS, 1000 * 2 ** (failures - 1)));
      }
    }
  }

  private async _once(opened: () => void): Promise<void> {
    this._abort = new AbortController();
    const { signal } = this._abort;
    const silence = new Alarm(SILENT_MS, () => this._abort.abort());
    try {
      const response = await this._api.ask('events', { signal });
      opened();
      this._become('open');
      for await (const [name, data] of eventsOf(response, () =>
        silence.restart()
      )) {
        this._apply({ name, data: JSON.parse(data) } as KernelEvent);
      }
    } finally {
      silence.stop();
    }
  }

  /** What a newer server tells besides is passed over. */
  private _apply(event: KernelEvent): void {
    if (event.name === 'slice') {
      this._slices.put(event.data);
    } else if (event.name === 'gone') {
      this._slices.drop(event.data.id);
    } else if (event.name === 'kernels') {
      this._slices.keepOnly(event.data.ids);
    }
  }

  private _become(state: State): void {
    if (state !== this._state) {
      this._state = state;
      this.changed.emit(state);
    }
  }
}

/** The events of a response: name and data. `heard` is called whenever something arrives. */
export async function* eventsOf(
  response: Response,
  heard: () => void
): AsyncGenerator<[string, string]> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    heard();
    const messages = (rest + value).split('\n\n');
    rest = messages.pop()!;
    for (const message of messages) {
      const name = /^event: (.*)$/m.exec(message);
      const data = /^data: (.*)$/m.exec(message);
      if (name && data) {
        yield [name[1], data[1]];
      }
    }
  }
}

class Alarm {
  private _timer = 0;

  constructor(
    private _ms: number,
    private _ring: () => void
  ) {
    this.restart();
  }

  restart(): void {
    this.stop();
    this._timer = window.setTimeout(this._ring, this._ms);
  }

  stop(): void {
    window.clearTimeout(this._timer);
  }
}

function inSight(): Promise<void> {
  return new Promise(resolve => {
    const look = () => {
      if (!document.hidden) {
        document.removeEventListener('visibilitychange', look);
        resolve();
      }
    };
    document.addEventListener('visibilitychange', look);
    look();
  });
}

/** Ends early where the browser finds its network again. */
function pause(ms: number): Promise<void> {
  return new Promise(resolve => {
    const end = () => {
      window.removeEventListener('online', end);
      window.clearTimeout(timer);
      resolve();
    };
    const timer = window.setTimeout(end, ms * (0.75 + Math.random() / 2));
    window.addEventListener('online', end);
  });
}
