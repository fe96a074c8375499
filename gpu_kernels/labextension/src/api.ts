/** The server's addresses below `/gpu-lab/api`. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import type {
  Change,
  ICourseOffer,
  IFailure,
  IKernelSlice
} from './resources';

/** The server said no; the message is its text. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    text: string
  ) {
    super(text);
  }
}

export class Api {
  constructor(private _settings: ServerConnection.ISettings) {}

  look(id: string): Promise<IKernelSlice> {
    return this._json(`kernels/${encodeURIComponent(id)}`);
  }

  course(): Promise<ICourseOffer> {
    return this._json('course');
  }

  change(id: string, change: Change, size?: string): Promise<IKernelSlice> {
    return this._json(`kernels/${encodeURIComponent(id)}/${change}`, {
      method: 'POST',
      body: JSON.stringify(size === undefined ? {} : { size })
    });
  }

  /** Raises `Refused`, or a TypeError where nobody answers. */
  async ask(address: string, init: RequestInit = {}): Promise<Response> {
    const url = URLExt.join(this._settings.baseUrl, 'gpu-lab/api', address);
    const response = await ServerConnection.makeRequest(
      url,
      init,
      this._settings
    );
    if (!response.ok) {
      throw new Refused(response.status, await message(response));
    }
    return response;
  }

  private async _json<T>(address: string, init?: RequestInit): Promise<T> {
    return (await this.ask(address, init)).json();
  }
}

async function message(response: Response): Promise<string> {
  try {
    const failure: IFailure = await response.json();
    return String(failure.message);
  } catch {
    return `${response.status} ${response.statusText}`;
  }
}
