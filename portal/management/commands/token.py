from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from foundation import clock
from foundation.errors import PortalError
from teams import services
from teams.actors import Actor
from teams.credentials import TOKEN_DAYS_DEFAULT
from teams.models import ApiToken, Team, User
from teams.tokens import new_token


class Command(BaseCommand):
    help = "Make an API token of a user and print it, once. With --new: print a text for a bootstrap file's token_env."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", nargs="?", help="whose token it is")
        parser.add_argument("--new", action="store_true", help="only make up a text; no token, no database")
        parser.add_argument("--name", default="ci", help="what people call it (ci)")
        parser.add_argument(
            "--scopes",
            nargs="+",
            choices=ApiToken.Scope.values,
            default=[ApiToken.Scope.READ.value, ApiToken.Scope.SUBMIT.value],
            help="what it may do (read submit)",
        )
        parser.add_argument(
            "--days",
            type=int,
            default=TOKEN_DAYS_DEFAULT,
            help=f"how long it is valid ({TOKEN_DAYS_DEFAULT})",
        )
        parser.add_argument("--team", help="the one team that it sees")

    @override
    def handle(self, *_args: Any, **options: Any) -> None:
        if options["new"]:
            self.stdout.write(new_token())
            return
        if not options["username"]:
            raise CommandError("Say whose token it is, or --new.")
        user = User.objects.filter(username=options["username"], is_active=True).first()
        if user is None:
            raise CommandError(f"There is no active user {options['username']}.")
        team = Team.objects.filter(slug=options["team"]).first() if options["team"] else None
        if options["team"] and team is None:
            raise CommandError(f"There is no team {options['team']}.")
        try:
            _, secret = services.create_token(
                actor=Actor.system("token"),
                user=user,
                name=options["name"],
                scopes=options["scopes"],
                expires_in_days=options["days"],
                team=team,
                now=clock.now(),
            )
        except PortalError as error:
            raise CommandError(error.message) from error
        # Alone on its line, so that a script can keep it: TOKEN=$(manage.py token ana).
        self.stdout.write(secret)
