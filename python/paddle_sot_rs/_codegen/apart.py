"""A module of its own: what warns in it has not warned of the same in another line."""


def run(function, args, kwargs):
    return function(*args, **kwargs)
