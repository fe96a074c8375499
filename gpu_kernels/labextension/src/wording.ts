/** What is written: all of it can be translated, but for the texts of the server. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { Told } from './slice';

/** `40 s`, `5 min`, `2.5 h`: as exact as a forecast is. */
export function duration(seconds: number, trans: TranslationBundle): string {
  if (seconds < 90) {
    return trans.__('%1 s', Math.max(1, Math.round(seconds)));
  }
  if (seconds < 90 * 60) {
    return trans.__('%1 min', Math.round(seconds / 60));
  }
  return trans.__('%1 h', String(Math.round(seconds / 360) / 10));
}

/** `number 3, in about 5 min` */
export function place(told: Told, trans: TranslationBundle): string {
  const position = told.slice.wanted?.position;
  if (!position) {
    return trans.__('asking');
  }
  return told.startsIn === null
    ? trans.__('number %1', position)
    : trans.__(
        'number %1, in about %2',
        position,
        duration(told.startsIn, trans)
      );
}

export function memory(told: Told, trans: TranslationBundle): string {
  const { used_mib, total_mib } = told.slice;
  if (total_mib === null) {
    return '';
  }
  return used_mib === null
    ? trans.__('%1 MiB', total_mib)
    : trans.__('%1 of %2 MiB', used_mib, total_mib);
}

export function compute(told: Told, trans: TranslationBundle): string {
  const { utilisation } = told.slice;
  return utilisation === null ? '' : trans.__('%1 %', Math.round(utilisation));
}

export function busy(told: Told, trans: TranslationBundle): string {
  const percent = compute(told, trans);
  return percent && trans.__('%1 busy', percent);
}

export function timeLeft(told: Told, trans: TranslationBundle): string {
  return told.endsIn === null
    ? ''
    : trans.__('%1 left', duration(told.endsIn, trans));
}

/** Why the slice ends when it does. */
export function reason(told: Told, trans: TranslationBundle): string {
  return told.slice.ends_why === 'class'
    ? trans.__('then it makes way for a class')
    : trans.__('then it reaches its time limit');
}

/** How it stands in a few words that do not change every second: what a screen reader says by itself. */
export function standing(told: Told, trans: TranslationBundle): string {
  const { state, size, wanted } = told.slice;
  if (state === 'attached') {
    return wanted
      ? trans.__('GPU slice %1, waiting for %2', size, wanted.size)
      : trans.__('GPU slice %1', size);
  }
  if (state === 'waiting') {
    return trans.__('Waiting for a GPU slice of %1', size);
  }
  return state === 'refused'
    ? trans.__('GPU slice refused')
    : trans.__('No GPU slice');
}

/** All of it in a sentence: the item's name for who does not see it. */
export function sentence(
  told: Told,
  old: boolean,
  trans: TranslationBundle
): string {
  const parts = [standing(told, trans)];
  if (told.slice.state === 'attached') {
    parts.push(
      memory(told, trans) && trans.__('memory %1', memory(told, trans)),
      told.nearlyFull ? trans.__('memory nearly full') : '',
      busy(told, trans),
      timeLeft(told, trans)
    );
  }
  if (told.slice.wanted) {
    parts.push(place(told, trans));
  }
  if (old) {
    parts.push(trans.__('not up to date, the server does not answer'));
  }
  return parts.filter(Boolean).join(', ');
}
