/** Made of gpu_kernels/resources/lab.py by `python -m gpu_kernels.resources.typescript`: change it there. */

export type Change = 'attach' | 'keep' | 'release' | 'wait';

/** How a request stands in the line. */
export interface IPlace {
  size: string;
  /** Counts from 1; null where nobody knows */
  position: number | null;
  /** Seconds until it is granted by what is known now; null where nobody knows */
  starts_in: number | null;
  /** Seconds that it has waited for */
  since: number;
  /** For the user as it stands, in a line */
  text: string;
}

/** How a kernel's slice stands. */
export interface IKernelSlice {
  /** The kernel's */
  id: string;
  /** How often it had changed: answers may overtake each other */
  changes: number;
  state: 'attached' | 'refused' | 'released' | 'waiting';
  size: string;
  device: string | null;
  course: string;
  lease: string | null;
  used_mib: number | null;
  total_mib: number | null;
  /** Percent */
  utilisation: number | null;
  /** Seconds until it ends, however it is renewed */
  ends_in: number | null;
  ends_why: 'class' | 'longest life' | null;
  position: number | null;
  starts_in: number | null;
  /** The place in the line, also for another size */
  wanted: IPlace | null;
  /** Another size was refused, in these words */
  declined: string | null;
  /** The last slice was taken back, rather than given back */
  lost: boolean;
  /** For the user as it stands: a few lines of plain text */
  text: string;
  /** Those on offer */
  sizes: string[];
}

/** Those of all kernels of ours. */
export interface IKernelSlices {
  kernels: IKernelSlice[];
}

/** How far a budget is spent, in GPU-hours. */
export interface IBudget {
  name: string;
  spent: number;
  most: number;
  /** For the text: when it has something again */
  until: string;
  /** The part that is spent, from 0 to 1 */
  part: number;
  /** For the user as it stands, in a line */
  text: string;
}

/** What the server's course offers, and how far its and the user's budgets are spent. */
export interface ICourseOffer {
  course: string | null;
  sizes: string[];
  budgets: IBudget[];
}

/** Why something was not done. */
export interface IFailure {
  /** For the user as it stands: a few lines of plain text */
  message: string;
  code: string;
}

/** The kernels that there are when a stream begins. */
export interface IKernelIds {
  ids: string[];
}

/** A kernel that has ended. */
export interface IGone {
  id: string;
}

/** What a stream tells. */
export type KernelEvent =
  | { name: 'kernels'; data: IKernelIds }
  | { name: 'slice'; data: IKernelSlice }
  | { name: 'gone'; data: IGone };
