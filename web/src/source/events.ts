// The server's events for all tabs of a browser over one connection: a browser has six to a server, and each stream would keep one.
// The tab that holds the lock reads the stream, and passes on what it reads; when it is closed, another tab gets the lock.
import type { ServerEvent, Source } from "./source.ts";

const NAME = "sonde-events";

type Message = { seen: ServerEvent; id: number } | "connected" | "lost";

export interface Listener {
  seen(event: ServerEvent): void;
  connected(): void; // the stream begins: what happened before may have been missed
  lost(error: unknown): void;
}

export class SharedEvents {
  private readonly name = NAME + location.pathname;
  private readonly channel = new BroadcastChannel(this.name);
  private last: number | null = null;

  constructor(private readonly listener: Listener) {
    this.channel.onmessage = ({ data }: MessageEvent<Message>) => {
      if (data === "connected") listener.connected();
      else if (data === "lost") listener.lost(null);
      else this.take(data.seen, data.id);
    };
  }

  // Reads until `goes` says no. Without locks (an address that the browser does not trust) every tab has a stream of its own.
  async listen(goes: () => Source | null, pause: () => Promise<void>): Promise<void> {
    const lead = (): Promise<void> => this.lead(goes, pause);
    await (navigator.locks ? navigator.locks.request(this.name, lead) : lead());
  }

  private async lead(goes: () => Source | null, pause: () => Promise<void>): Promise<void> {
    for (let source = goes(); source; source = goes()) {
      try {
        this.send("connected");
        this.listener.connected();
        await source.events(
          this.last,
          (seen, id) => {
            this.take(seen, id);
            this.send({ seen, id });
          },
          new AbortController().signal,
        );
      } catch (error) {
        this.listener.lost(error);
      }
      this.send("lost");
      await pause();
    }
  }

  private take(seen: ServerEvent, id: number): void {
    this.last = id;
    this.listener.seen(seen);
  }

  private send(message: Message): void {
    if (navigator.locks) this.channel.postMessage(message);
  }
}
