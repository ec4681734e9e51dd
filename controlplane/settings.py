"""Every setting, from the environment; a secret may also come from the file named by NAME_FILE."""

from __future__ import annotations

from pathlib import Path

from controlplane.lib import buckets, logs
from controlplane.lib.addresses import AddressPolicy
from controlplane.lib.environment import Environment

BASE_DIR = Path(__file__).resolve().parent.parent
env = Environment()

# Where and how this instance runs
ENVIRONMENT = env.choice("CADUCEUS_ENV", ("production", "development", "test"), default="production")
DEBUG = env.flag("DEBUG", default=False)
VAR = Path(env.text("CADUCEUS_VAR", default=str(BASE_DIR / "var")))
PUBLIC_URL = env.web_address("PUBLIC_URL", default="http://localhost:8000")
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL] if PUBLIC_URL.startswith("https://") else []
ON_TLS = PUBLIC_URL.startswith("https://")

# Secrets
DEFAULT_SECRET_KEY = "unsafe-default-secret-key"
SECRET_KEY = env.secret("SECRET_KEY", default=DEFAULT_SECRET_KEY)
SECRET_FIELD_KEYS = env.secret("SECRET_FIELD_KEYS", default="").split()
SIGNING_KEY_FILE = Path(env.text("SIGNING_KEY_FILE", default=str(VAR / "keys" / "signing.pem")))
CHECKPOINT_DIR = Path(env.text("CHECKPOINT_DIR", default=str(VAR / "checkpoints")))

INSTALLED_APPS = [
    "controlplane.admin.site.PlaneAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "axes",
    "csp",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "controlplane",
    "hooks_app",
    "gateway_app",
]

MIDDLEWARE = [
    "controlplane.middleware.RequestId",
    "controlplane.middleware.Health",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "controlplane.middleware.BodyLimit",
    "controlplane.middleware.NoNul",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "controlplane.middleware.RequestScope",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "controlplane.urls"
WSGI_APPLICATION = "controlplane.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "controlplane" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "controlplane.admin.context.plane",
            ],
            "libraries": {"plane": "controlplane.admin.tags"},
        },
    },
]

# Database: requests and workers use the runtime role, which row-level security binds; migrations the owner.
AS_OWNER = env.choice("CADUCEUS_ROLE", ("app", "owner"), default="app") == "owner"
DATABASES = {
    "default": env.database(
        "DATABASE_OWNER_URL" if AS_OWNER else "DATABASE_URL",
        default="postgresql:///caduceus",
        engine="controlplane.db",
        pool={"min_size": 1, "max_size": env.number("DATABASE_POOL", default=16, low=1, high=500), "timeout": 10},
    ),
}
DATABASES["default"]["ATOMIC_REQUESTS"] = True
RUNTIME_ROLE = env.text("DATABASE_RUNTIME_ROLE", default=env.database_user("DATABASE_URL", "caduceus_app"))
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TEST_RUNNER = "django.test.runner.DiscoverRunner"

# Broker and cache
REDIS_URL = env.redis("REDIS_URL", default="redis://127.0.0.1:6379/0")
CACHES = {"default": {"BACKEND": "controlplane.lib.cache.ResilientRedisCache", "LOCATION": REDIS_URL}}
CELERY_BROKER_URL = env.text("CELERY_BROKER_URL", default=REDIS_URL.replace("unix://", "redis+socket://", 1))

# People
AUTH_USER_MODEL = "controlplane.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "admin:index"
AXES_FAILURE_LIMIT = env.number("LOGIN_FAILURE_LIMIT", default=5, low=1, high=1000)
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_LOCKOUT_TEMPLATE = "admin/locked_out.html"
AXES_RESET_ON_SUCCESS = True
AXES_ENABLE_ADMIN = False
AXES_DISABLE_ACCESS_LOG = True
AXES_VERBOSE = False

# Browser hardening
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = ON_TLS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_AGE = 12 * 3600
SESSION_ENGINE = "django.contrib.sessions.backends.db"
CSRF_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "controlplane.api.errors.csrf_failure"
SECURE_HSTS_SECONDS = 31536000 if ON_TLS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = ON_TLS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.flag("BEHIND_PROXY", default=False) else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    },
}

# Requests
MAX_BODY_BYTES = env.number("MAX_BODY_BYTES", default=2 * 2**20, low=1024, high=2**30)
DATA_UPLOAD_MAX_MEMORY_SIZE = env.number("MAX_UPLOAD_BYTES", default=16 * 2**20, low=1024, high=2**30)
DATA_UPLOAD_MAX_NUMBER_FIELDS = 2000
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "controlplane.api.authentication.Bearer",
        "controlplane.api.authentication.Session",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["controlplane.api.permissions.Allowed"],
    "DEFAULT_PARSER_CLASSES": ["controlplane.api.parsers.StrictJSON"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PAGINATION_CLASS": "controlplane.api.pagination.Newest",
    "DEFAULT_THROTTLE_CLASSES": ["controlplane.api.throttles.PerActor"],
    "DEFAULT_THROTTLE_RATES": {"actor": env.accepted("API_RATE", "6000/min", by=buckets.rate)},
    "DEFAULT_SCHEMA_CLASS": "controlplane.api.schema.PathSchema",
    "EXCEPTION_HANDLER": "controlplane.api.errors.handle",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Caduceus",
    "DESCRIPTION": "The hook control plane for fleets of agents.",
    "VERSION": "v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": [],  # choices stand where they are used, so that none needs an invented name
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
}

# Outbound calls
OUTBOUND_ALLOW = env.accepted_words("OUTBOUND_ALLOW", by=AddressPolicy)
EMAIL_BACKEND = env.text("EMAIL_BACKEND", default="django.core.mail.backends.smtp.EmailBackend")
EMAIL_HOST = env.text("EMAIL_HOST", default="localhost")
EMAIL_PORT = env.number("EMAIL_PORT", default=25, low=1, high=65535)
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER", default="")
EMAIL_HOST_PASSWORD = env.secret("EMAIL_HOST_PASSWORD", default="")
EMAIL_USE_TLS = env.flag("EMAIL_USE_TLS", default=False)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.text("EMAIL_FROM", default="caduceus@localhost")

# Tenant code
HOOK_SANDBOX = env.choice("HOOK_SANDBOX", ("bubblewrap", "none"), default="bubblewrap")

# Static files, language, time, logs
STATIC_URL = "/static/"
STATIC_ROOT = VAR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if ENVIRONMENT == "test"
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}
WHITENOISE_USE_FINDERS = ENVIRONMENT == "test"
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True
LOGGING = logs.configure(env.choice("LOG_FORMAT", ("console", "json"), default="console"))
LOGGING["loggers"] |= {name: {"level": "WARNING"} for name in ("axes", "celery")}  # the audit and metrics tell the rest
if ENVIRONMENT == "test":
    PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
