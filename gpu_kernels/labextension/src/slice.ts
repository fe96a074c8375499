/** What can be counted from a kernel's slice as the server tells it. */

import type { IKernelSlice } from './resources';

/** The part of the memory from which it is nearly used up. */
export const NEARLY_FULL = 0.9;
/** Seconds before the end from which a slice ends soon. */
export const SOON_S = 600;
/** Seconds after which what was told is old, where no stream is open that would tell of changes. */
const OLD_S = 15;

/** A slice, and when it was told, in seconds of this page's clock. */
export class Told {
  constructor(
    readonly slice: IKernelSlice,
    readonly at: number = now()
  ) {}

  /** Seconds until the slice ends, counted down since it was told. */
  get endsIn(): number | null {
    return this._down(this.slice.ends_in);
  }

  /** Seconds until what it waits for is granted. */
  get startsIn(): number | null {
    return this._down(this.slice.wanted?.starts_in ?? null);
  }

  /** Seconds that it has waited for. */
  get waited(): number {
    return this.slice.wanted ? this.slice.wanted.since + now() - this.at : 0;
  }

  /** The part of the memory that is used, from 0 to 1. */
  get filled(): number | null {
    const { used_mib, total_mib } = this.slice;
    return used_mib === null || !total_mib
      ? null
      : Math.min(1, used_mib / total_mib);
  }

  get isOld(): boolean {
    return now() - this.at > OLD_S;
  }

  get nearlyFull(): boolean {
    return (this.filled ?? 0) >= NEARLY_FULL;
  }

  get endsSoon(): boolean {
    return this.endsIn !== null && this.endsIn <= SOON_S;
  }

  private _down(seconds: number | null): number | null {
    return seconds === null ? null : Math.max(0, seconds - (now() - this.at));
  }
}

export function now(): number {
  return performance.now() / 1000;
}
