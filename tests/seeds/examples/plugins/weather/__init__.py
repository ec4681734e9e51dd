import os


def register(ctx):
    ctx.register_hook("pre_llm_call", lambda **kwargs: {"context": f"weather key of {len(os.environ['WEATHER_API_KEY'])} characters"})
