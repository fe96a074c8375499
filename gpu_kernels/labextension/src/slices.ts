/** What is known of the slices of all kernels of this server. */

import { Signal } from '@lumino/signaling';

import type { IKernelSlice } from './resources';
import { Told } from './slice';

export interface IChange {
  id: string;
  before: Told | undefined;
  now: Told | undefined;
}

export class Slices {
  readonly changed = new Signal<this, IChange>(this);
  private _told = new Map<string, Told>();
  /** Those of which the server, maybe another one by now, has not told since the stream was opened. */
  private _untold = new Set<string>();

  get(id: string | null): Told | undefined {
    return id === null ? undefined : this._told.get(id);
  }

  all(): Iterable<[string, Told]> {
    return this._told;
  }

  /** What is older than what is known is left out. */
  put(slice: IKernelSlice): void {
    const before = this._told.get(slice.id);
    const known = this._untold.delete(slice.id) ? undefined : before?.slice;
    if (known && slice.changes < known.changes) {
      return;
    }
    const now = new Told(slice);
    this._told.set(slice.id, now);
    this.changed.emit({ id: slice.id, before, now });
  }

  drop(id: string): void {
    const before = this._told.get(id);
    if (this._told.delete(id)) {
      this.changed.emit({ id, before, now: undefined });
    }
  }

  /** A stream begins, and there are no others than these: some may have ended while nobody listened. */
  keepOnly(ids: string[]): void {
    this._untold = new Set(ids);
    for (const id of [...this._told.keys()]) {
      if (!ids.includes(id)) {
        this.drop(id);
      }
    }
  }
}
