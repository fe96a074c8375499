/** What is known of the slices of all kernels of this server. */

import { Signal } from '@lumino/signaling';

import { type ISlice, Told } from './slice';

export interface IChange {
  id: string;
  before: Told | undefined;
  now: Told | undefined;
}

export class Slices {
  readonly changed = new Signal<this, IChange>(this);
  private _told = new Map<string, Told>();

  get(id: string | null): Told | undefined {
    return id === null ? undefined : this._told.get(id);
  }

  all(): Iterable<[string, Told]> {
    return this._told;
  }

  put(slice: ISlice): void {
    const before = this._told.get(slice.id);
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

  /** There are no others than these: some may have ended while nobody listened. */
  keepOnly(ids: string[]): void {
    for (const id of [...this._told.keys()]) {
      if (!ids.includes(id)) {
        this.drop(id);
      }
    }
  }
}
