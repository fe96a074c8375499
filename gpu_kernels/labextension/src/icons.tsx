/** Pictures beside words: what they mean is always written too. */

import * as React from 'react';

const PATHS = {
  chip: 'M5 1v2H3v2H1v1h2v1.5H1v1h2V10H1v1h2v2h2v2h1v-2h1.5v2h1v-2H10v2h1v-2h2v-2h2v-1h-2V8.5h2v-1h-2V6h2V5h-2V3h-2V1h-1v2H8.5V1h-1v2H6V1zm0 4h6v6H5zm1.5 1.5v3h3v-3z',
  off: 'M5 1v2H3v2H1v1h2v4H1v1h2v2h2v2h1v-2h4v2h1v-2h2v-2h2v-1h-2V6h2V5h-2V3h-2V1h-1v2H6V1zm0 4h6v6H5z',
  waiting:
    'M3 1h10v1h-1v2.5L9 8l3 3.5V14h1v1H3v-1h1v-2.5L7 8 4 4.5V2H3zm2 1v2.2L8 7.6l3-3.4V2zm3 6.4-3 3.4V14h6v-2.2z',
  warning: 'M8 1 .5 14.5h15zm-.75 5h1.5v4.5h-1.5zm0 5.5h1.5V13h-1.5z'
};

export function Icon(props: { of: keyof typeof PATHS }): JSX.Element {
  return (
    <svg
      className={`jp-GPUSlice-icon jp-GPUSlice-${props.of}`}
      viewBox="0 0 16 16"
      width="14"
      height="14"
      aria-hidden="true"
    >
      <path fill="currentColor" fillRule="evenodd" d={PATHS[props.of]} />
    </svg>
  );
}

/** A part of something, from 0 to 1; the number stands beside it. */
export function Bar(props: { part: number; near: boolean }): JSX.Element {
  return (
    <span
      className={props.near ? 'jp-GPUSlice-bar jp-mod-near' : 'jp-GPUSlice-bar'}
      aria-hidden="true"
    >
      <span style={{ width: `${Math.round(100 * props.part)}%` }} />
    </span>
  );
}
