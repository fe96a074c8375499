/** The popup over the item: all about a kernel's slice, and changing it. */

import { ReactWidget } from '@jupyterlab/ui-components';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { Api } from './api';
import { Details } from './details';
import type { Change, ICourseOffer, IKernelSlice } from './resources';
import type { Slices } from './slices';

/** What counts down is written anew. */
const TICK_MS = 1000;

interface IProps {
  id: string;
  slices: Slices;
  api: Api;
  trans: TranslationBundle;
}

export class PopupBody extends ReactWidget {
  constructor(private _props: IProps) {
    super();
    this.addClass('jp-GPUSlice-popup');
  }

  protected render(): JSX.Element {
    return <Content {...this._props} />;
  }
}

function Content(props: IProps): JSX.Element {
  const { id, slices, api, trans } = props;
  const told = useTold(id, slices);
  const course = useCourse(api);
  const [busy, setBusy] = React.useState(false);
  const [refusal, setRefusal] = React.useState('');
  const dialog = React.useRef<HTMLDivElement>(null);

  // Whoever came by the keyboard goes on here. Only when it opens: a change that ends
  // just as the popup closes would take the focus back from the item.
  React.useEffect(() => dialog.current?.focus(), []);

  const change = async (what: Change, size?: string) => {
    // The button pressed is disabled from now on, or gone: it would keep Escape and Tab to itself.
    dialog.current?.focus();
    setBusy(true);
    setRefusal('');
    try {
      slices.put(await api.change(id, what, size));
    } catch (error) {
      setRefusal(
        error instanceof TypeError
          ? trans.__('The Jupyter server does not answer. Try again in a minute.')
          : (error as Error).message
      );
    } finally {
      setBusy(false);
    }
  };

  return (
    <div
      ref={dialog}
      role="dialog"
      aria-label={trans.__('Slice of a GPU')}
      tabIndex={-1}
      className="jp-GPUSlice-dialog"
    >
      <h2>{trans.__('Slice of a GPU')}</h2>
      {told ? (
        <Details
          told={told}
          sizes={sizesOf(told.slice, course)}
          budgets={course?.budgets ?? []}
          busy={busy}
          change={change}
          trans={trans}
        />
      ) : (
        <p>{trans.__('This kernel has ended, or has no slice of a GPU.')}</p>
      )}
      <div role="alert" className="jp-GPUSlice-refusal">
        {refusal}
      </div>
    </div>
  );
}

function useTold(id: string, slices: Slices) {
  const [, again] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    slices.changed.connect(again);
    const timer = window.setInterval(again, TICK_MS);
    return () => {
      slices.changed.disconnect(again);
      window.clearInterval(timer);
    };
  }, [slices]);
  return slices.get(id);
}

/** What the course offers; without an answer the popup shows what is known without it. */
function useCourse(api: Api): ICourseOffer | null {
  const [course, setCourse] = React.useState<ICourseOffer | null>(null);
  React.useEffect(() => {
    api.course().then(setCourse, () => undefined);
  }, [api]);
  return course;
}

function sizesOf(slice: IKernelSlice, course: ICourseOffer | null): string[] {
  return course?.sizes.length ? course.sizes : slice.sizes;
}
