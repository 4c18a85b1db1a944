"""llama.cpp in a process of its own, where a damaged file can do no harm: requests come in as lines, answers go out.

Run as a script, with the path of a GGUF file and the longest context. It needs xllamacpp and nothing of rote.
"""

import json
import os
import sys


def main(path: str, context: int, threads: int) -> None:
    # Whatever llama.cpp prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    import xllamacpp as runtime

    settings = runtime.CommonParams()
    settings.model.path = path
    settings.n_ctx, settings.n_parallel, settings.n_gpu_layers = context, 1, 0
    settings.warmup, settings.verbosity = False, 0
    settings.cache_type_k = settings.cache_type_v = runtime.ggml_type.GGML_TYPE_F32
    settings.flash_attn_type = runtime.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
    server = runtime.Server(settings)
    for line in sys.stdin:
        request = json.loads(line)
        said = server.handle_completions({"temperature": 0, "cache_prompt": False, **request})
        print(json.dumps(said), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
