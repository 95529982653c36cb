"""Load on a server that speaks OpenAI's interface: requests a second, and how long first and further tokens take.

    bench/llm_load.py --url http://127.0.0.1:8000 [--rate 4 | --clients 16] [--requests 200] [--prompt 128] [--tokens 64]

Prompts are random tokens' numbers below --vocabulary, of --prompt tokens give or take --spread of them; texts go on to
--tokens (ignore_eos). With --rate calls come in a Poisson process of so many a second, whatever the answers take; with
--clients each of these asks for the next when it has its answer. --json prints one line for scripts. Calls that are refused
(503) are counted, and so are those that fail."""

import argparse
import asyncio
import json
import random
import time
from urllib.parse import urlsplit


class Result:
    def __init__(self):
        self.status, self.first, self.gaps, self.total, self.tokens, self.failure = 0, None, [], None, 0, None


async def call(url, document, key):
    result, start = Result(), time.monotonic()
    try:
        reader, writer = await asyncio.open_connection(url.hostname, url.port or 80)
        body = json.dumps(document).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n"
        head += f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        result.status = int(answer.split()[1])
        last = None
        async for line in reader:
            now = time.monotonic()
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise RuntimeError(event["error"]["message"])
            if event.get("usage"):
                result.tokens = event["usage"]["completion_tokens"]
            elif last is None:
                result.first, last = now - start, now
            else:
                result.gaps.append(now - last)
                last = now
        writer.close()
        result.total = time.monotonic() - start
        if result.status == 200 and result.tokens != document["max_tokens"]:
            result.failure = f"{result.tokens} tokens came"
    except (OSError, EOFError, RuntimeError, ValueError) as error:
        result.failure = f"{type(error).__name__}: {error}"
    return result


def documents(options):
    dice = random.Random(options.seed)
    for _ in range(options.requests):
        length = round(options.prompt * dice.uniform(1 - options.spread, 1 + options.spread))
        prompt = [dice.randrange(options.vocabulary) for _ in range(max(length, 1))]
        fields = {"max_tokens": options.tokens, "ignore_eos": True, "logprobs": 0, "stream": True}
        fields |= {"temperature": options.temperature, "stream_options": {"include_usage": True}}
        yield {"prompt": prompt, **({"model": options.model} if options.model else {}), **fields}


async def run(options):
    url, given = urlsplit(options.url), list(documents(options))
    if options.rate:
        dice, tasks = random.Random(options.seed), []
        for document in given:
            tasks.append(asyncio.create_task(call(url, document, options.key)))
            await asyncio.sleep(dice.expovariate(options.rate))
        return await asyncio.gather(*tasks)
    results = []

    async def client():
        while given:
            results.append(await call(url, given.pop(), options.key))

    await asyncio.gather(*(client() for _ in range(options.clients)))
    return results


def percentile(values, share):
    return sorted(values)[min(int(share * len(values)), len(values) - 1)] * 1000 if values else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model")
    parser.add_argument("--key", default="none")
    parser.add_argument("--rate", type=float)
    parser.add_argument("--clients", type=int, default=16)
    for name, default in {"requests": 200, "prompt": 128, "tokens": 64, "vocabulary": 256, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--spread", type=float, default=0.5)
    parser.add_argument("--temperature", type=float, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    start = time.monotonic()
    results = asyncio.run(run(options))
    seconds = time.monotonic() - start
    good = [result for result in results if result.status == 200 and not result.failure]
    table = {
        "answered": len(good),
        "refused": sum(result.status == 503 for result in results),
        "failed": sum(result.failure is not None or result.status not in (200, 503) for result in results),
        "requests_per_s": len(good) / seconds,
        "tokens_per_s": sum(result.tokens for result in good) / seconds,
    }
    for name, values in {
        "ttft_ms": [result.first for result in good if result.first is not None],
        "itl_ms": [gap for result in good for gap in result.gaps],
        "e2e_ms": [result.total for result in good],
    }.items():
        table |= {f"{name}_{round(100 * share)}": percentile(values, share) for share in (0.5, 0.9, 0.99)}
    if options.json:
        print(json.dumps(table))
    else:
        for name, value in table.items():
            print(f"{name:16} {value if isinstance(value, int) or value is None else round(value, 2)}")
    failures = {result.failure for result in results if result.failure}
    if failures:
        raise SystemExit("failed: " + "; ".join(sorted(failures)[:5]))


if __name__ == "__main__":
    main()
